"""The language in which messages are declared: one class for all versions, ranges on the fields.

A declaration is a plain class whose fields are made by `field`, decorated with `nested` (a
structure inside messages) or `message` (a request, a response, or a record that is stored).  Both
make a slotted class with a keyword-only `__init__`, `__eq__` and `__repr__`, as a dataclass has
them; the `__init__` is compiled at its first call, which makes importing a declaration about ten
times cheaper than a dataclass.  Type checkers see a dataclass.

How wire types and Python types go together:

    bool         bool                   string   str
    int8..64     int                    bytes    bytes
    uint16       int                    uuid     uuid.UUID; ZERO_UUID where there is none
    float64      float                  a class decorated with `nested`: an object of that class
    [type]       list
    records      decodes to a memoryview; encodes anything bytes-like or a file slice (see
                 `compiler`)

Null is None.  A version that lacks a field decodes to its default and does not encode it.  A
*tagged* structure that is not nullable is None where its tag is absent, which is how the wire
writes a structure whose fields all have their defaults: most partitions of a response carry none of
theirs, so they cost nothing.

Source: KIP-482 (flexible versions, tagged fields), KIP-893 (nullable structures).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeVar, dataclass_transform
from uuid import UUID as Uuid

from odradek.protocol.generated import compile_function

Class = TypeVar("Class", bound=type)

ZERO_UUID: Final = Uuid(int=0)
"""How the wire writes an absent id."""

VERSION_MAX: Final = 32767

STRING_BYTES_MAX: Final = 0x7FFF
"""Bytes of a string in every encoding.  Source: MessageDataGenerator ("had invalid length")."""


class VersionRange(NamedTuple):
    """Both ends belong to the range; an empty one has `first > last`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSION: Final = VersionRange(1, 0)


@cache
def parse_versions(text: str) -> VersionRange:
    """The range that "3", "0-4", "2+" or "none" means."""
    if text == "none":
        return NO_VERSION
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return VersionRange(int(first), int(last or first))


class Primitive:
    """A type without inner structure.

    code         its letter for the struct module, empty where the size varies
    size_bytes   0 where the size varies
    """

    __slots__ = ("code", "name", "size_bytes")

    def __init__(self, name: str, code: str = "", size_bytes: int = 0) -> None:
        self.name = name
        self.code = code
        self.size_bytes = size_bytes

    def __repr__(self) -> str:
        return self.name


BOOL: Final = Primitive("bool", "?", 1)
INT8: Final = Primitive("int8", "b", 1)
INT16: Final = Primitive("int16", "h", 2)
UINT16: Final = Primitive("uint16", "H", 2)
INT32: Final = Primitive("int32", "i", 4)
INT64: Final = Primitive("int64", "q", 8)
FLOAT64: Final = Primitive("float64", "d", 8)
UUID: Final = Primitive("uuid", "16s", 16)
STRING: Final = Primitive("string")
BYTES: Final = Primitive("bytes")
RECORDS: Final = Primitive("records")

TypeName = Literal[
    "bool",
    "int8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "float64",
    "uuid",
    "string",
    "bytes",
    "records",
]
"""A primitive in a declaration, by the name that Kafka's declarations have for it."""

_BY_NAME: Final = {
    each.name: each
    for each in (BOOL, INT8, INT16, UINT16, INT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS)
}


class ArrayOf:
    """A counted list of primitives or structures."""

    __slots__ = ("element",)

    def __init__(self, element: Primitive | type) -> None:
        self.element = element

    def __repr__(self) -> str:
        return f"ArrayOf({self.element!r})"


FieldType = Primitive | ArrayOf | type


class Required:
    """The default of a field that has none."""


class Field:
    """One declared field.

    tag            its number in the tagged section, None for an ordinary field
    default        what a version without the field decodes to; lists and structures are made
                   new for each value
    is_flexible    False for the string that keeps its old encoding for ever (the client id)
    """

    __slots__ = ("default", "is_flexible", "name", "nullable", "tag", "type", "versions")

    def __init__(
        self,
        type_: FieldType,
        versions: VersionRange,
        nullable: VersionRange,
        tag: int | None,
        default: Any,
        is_flexible: bool,
    ) -> None:
        self.name = ""
        self.type = type_
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.default = default
        self.is_flexible = is_flexible

    @property
    def has_fresh_default(self) -> bool:
        """The default is mutable, so each object needs its own."""
        return isinstance(self.default, list) or hasattr(type(self.default), "__schema__")

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.type!r}, {self.versions!r})"


def field(
    type_: TypeName | type | list[TypeName | type],
    versions: str,
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: Any = Required,
    flexible: bool = True,
) -> Any:
    """Declare a field.

    type_      a list has the type of its elements
    versions   that carry it: "3+", "0-2", "4"
    nullable   versions in which it may be None
    tag        its number, for a field of the tagged section
    default    mandatory where the message has a version without the field; `[]` or a structure
               is new for each value
    flexible   False keeps the old string encoding in flexible versions
    """
    declared = ArrayOf(_declared(type_[0])) if isinstance(type_, list) else _declared(type_)
    bounds = parse_versions(versions), parse_versions(nullable)
    return Field(declared, *bounds, tag, default, flexible)


def _declared(type_: TypeName | type) -> Primitive | type:
    return type_ if isinstance(type_, type) else _BY_NAME[type_]


class Schema:
    """What a declaration says.

    fields     in wire order, tagged ones included
    api_key    None for structures and stored records
    versions   known here; every version for a structure, which has those of the message around it
    flexible   the versions with compact lengths and tagged fields
    """

    __slots__ = ("api_key", "fields", "flexible", "name", "versions")

    def __init__(self, name: str, fields: tuple[Field, ...]) -> None:
        self.name = name
        self.fields = fields
        self.api_key: int | None = None
        self.versions = VersionRange(0, VERSION_MAX)
        self.flexible = NO_VERSION

    def plain_fields(self, version: int) -> list[Field]:
        """The untagged fields of a version, in wire order."""
        return [each for each in self.fields if each.tag is None and version in each.versions]

    def tagged_fields(self, version: int) -> list[Field]:
        """The tagged fields of a version, in the order of their tags."""
        tagged = [each for each in self.fields if each.tag is not None and version in each.versions]
        return sorted(tagged, key=lambda each: each.tag or 0)

    def absent_fields(self, version: int) -> list[Field]:
        """The fields that a version does not have."""
        return [each for each in self.fields if version not in each.versions]


def schema_of(cls: type) -> Schema:
    """The schema of a declared class."""
    schema: Schema = cls.__schema__  # type: ignore[attr-defined]
    return schema


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def nested(cls: Class) -> Class:
    """A structure inside messages, or a part of one."""
    return declare(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, versions: str, flexible: str = "none", api_key: int | None = None
) -> Callable[[Class], Class]:
    """A request, a response, or (without an api key) a record that is stored."""

    def decorate(cls: Class) -> Class:
        declared = declare(cls)
        schema = schema_of(declared)
        schema.api_key = api_key
        schema.versions = parse_versions(versions)
        schema.flexible = parse_versions(flexible)
        return declared

    return decorate


def declare(cls: Class) -> Class:
    """The slotted class that a declaration describes."""
    fields: list[Field] = []
    namespace: dict[str, Any] = {}
    for name, value in cls.__dict__.items():
        if isinstance(value, Field):
            value.name = name
            fields.append(value)
        elif name not in ("__dict__", "__weakref__"):
            namespace[name] = value
    namespace["__slots__"] = tuple(each.name for each in fields)
    namespace["__schema__"] = Schema(cls.__name__, tuple(fields))
    namespace["__init__"] = compile_init_and_call
    namespace["__eq__"] = is_equal
    namespace["__hash__"] = None
    namespace["__repr__"] = representation
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def compile_init_and_call(self: object, **values: Any) -> None:
    """The `__init__` of a class of which no object was made yet: puts the real one in its place."""
    cls = type(self)
    init = compile_init(cls)
    setattr(cls, "__init__", init)  # noqa: B010 - the checker forbids the plain assignment
    init(self, **values)


def compile_init(cls: type) -> Callable[..., None]:
    """A keyword-only `__init__` with one assignment for each field."""
    parameters: list[str] = []
    body: list[str] = []
    namespace: dict[str, Any] = {"Required": Required}
    for each in schema_of(cls).fields:
        name = each.name
        if each.default is Required:
            parameters.append(name)
            body.append(f"self.{name} = {name}")
        elif each.has_fresh_default:
            namespace[f"fresh_{name}"] = fresh_maker(each)
            parameters.append(f"{name}=Required")
            body.append(f"self.{name} = fresh_{name}() if {name} is Required else {name}")
        else:
            namespace[f"default_{name}"] = each.default
            parameters.append(f"{name}=default_{name}")
            body.append(f"self.{name} = {name}")
    star = ", *, " if parameters else ""
    head = f"def __init__(self{star}{', '.join(parameters)}):"
    init = compile_function("__init__", "\n ".join([head, *body, "pass"]), namespace)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def fresh_maker(each: Field) -> Callable[[], Any]:
    """A function that makes the default of a field with a mutable default."""
    return list if isinstance(each.default, list) else type(each.default)


def default_value(each: Field) -> Any:
    """The default of a field, a new one where it could be changed."""
    assert each.default is not Required, f"{each.name} has no default"
    return fresh_maker(each)() if each.has_fresh_default else each.default


def is_equal(self: object, other: object) -> bool:
    """Same class and equal fields."""
    if type(self) is not type(other):
        return False
    names = [each.name for each in schema_of(type(self)).fields]
    return all(getattr(self, name) == getattr(other, name) for name in names)


def representation(self: object) -> str:
    """The constructor call that makes an equal object."""
    schema = schema_of(type(self))
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in schema.fields)
    return f"{schema.name}({', '.join(values)})"
