"""The source of the flat decoding function of one class and version.

What makes the function fast, measured on CPython 3.11 (a Fetch of 6 partitions in 2.5 us, where the
reference codec takes 60):

- Runs of fixed-size fields become one precompiled Struct, and the length in front of a string or
  an array belongs to the run before it (in flexible versions its first byte: lengths below 127
  need no more).  So does the count of tagged fields, which is nearly always 0.
- Values go straight into the slots of objects made without calling `__init__`.
- Arrays of fixed-size structures go through `iter_unpack`.  Others are counted down: most have one
  element, and a range costs as much as ten turns of such a loop.
- The bytes of a string are copied and decoded by methods: `str` looks for its arguments first.
- There is no call per field, and no copy: RECORDS are slices of the buffer.

Every length is checked against the bytes left before anything is allocated for it, and that of a
string against Kafka's bound.

A function *in steps* is a generator: it yields after each element of an array, so that its caller
can do other work in between, and counts the elements of all arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final
from uuid import UUID as Uuid

from odradek.protocol.decode_error import DecodeError
from odradek.protocol.schema import (
    BYTES,
    RECORDS,
    STRING,
    STRING_BYTES_MAX,
    UUID,
    ArrayOf,
    Field,
    FieldType,
    Primitive,
    default_value,
    fresh_maker,
    schema_of,
)
from odradek.protocol.source_writer import SourceWriter
from odradek.protocol.uvarint import check_tag_count, rest_of_uvarint, skip_tags, uvarint_at

UUIDS_CACHED: Final = 4096
"""Topic ids come in every request of a session; making a UUID costs ten times a look-up."""

COUNTED_MAX: Final = 16
"""Replicas of a partition, brokers of a small cluster: longer arrays of numbers are rare."""


@cache
def counted_unpacks(code: str) -> tuple[Callable[..., tuple[Any, ...]], ...]:
    """By count, what unpacks so many numbers: cheaper than a format made for the call."""
    return tuple(struct.Struct(f">{count}{code}").unpack_from for count in range(COUNTED_MAX + 1))


@lru_cache(UUIDS_CACHED)
def make_uuid(content: bytes) -> Uuid:
    """The UUID of 16 bytes."""
    return Uuid(bytes=content)


def size_min(
    type_: FieldType, version: int, *, is_flexible: bool, is_nullable: bool = False
) -> int:
    """The bytes that a value of the type needs at least."""
    if isinstance(type_, ArrayOf):
        return 1 if is_flexible else 4
    if isinstance(type_, Primitive):
        if type_.code:
            return type_.size_bytes
        return 1 if is_flexible else (2 if type_ is STRING else 4)
    if is_nullable:
        return 1
    total = 1 if is_flexible else 0
    for each in schema_of(type_).plain_fields(version):
        total += size_min(
            each.type,
            version,
            is_flexible=is_flexible and each.is_flexible,
            is_nullable=version in each.nullable,
        )
    return total


class DecoderSource(SourceWriter):
    """Source lines, and the run of fixed-size values that is not read yet.

    Every method that emits a value leaves it to the next `flush` to read what is fixed; a block of
    the source begins and ends with an empty run.
    """

    def __init__(self, cls: type, version: int, *, in_steps: bool = False) -> None:
        super().__init__(cls, version, depth=2)
        self.in_steps = in_steps
        self.after_run: list[str] = []
        """Lines that need the values of the run."""
        self.namespace |= {
            "DecodeError": DecodeError,
            "check_tag_count": check_tag_count,
            "new": object.__new__,
            "rest_of_uvarint": rest_of_uvarint,
            "uvarint_at": uvarint_at,
            "skip_tags": skip_tags,
            "make_uuid": make_uuid,
            "unpack_from": struct.unpack_from,
            "unreadable": (struct.error, IndexError, UnicodeDecodeError),
        }

    def source(self) -> str:
        """A function `decode`, whose globals are `namespace`.

        In steps it takes the number of elements that it may read as a third argument.
        """
        name = f"{self.cls.__name__} version {self.version}"
        self.structure(self.cls, "value")
        self.flush()
        return "\n".join(
            [
                f"def decode(b, p{', left' if self.in_steps else ''}):",
                "    end = len(b)",
                "    try:",
                *self.lines,
                "        return value, p",
                "    except unreadable as error:",
                f"        raise DecodeError(f'{name}: {{error}}') from error",
            ]
        )

    def layout(self, codes: str) -> str:
        """The name of the Struct with these codes."""
        name = f"layout_{codes.replace('?', 'o')}"
        self.namespace.setdefault(name, struct.Struct(f">{codes}"))
        return name

    def flush(self) -> None:
        """Read the run of fixed-size values."""
        codes = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        if codes == "B":
            self.line(f"{targets} = b[p]")
            self.line("p += 1")
        elif codes == "?":
            self.line(f"{targets} = b[p] != 0")
            self.line("p += 1")
        elif codes:
            layout = self.layout(codes)
            unpack = f"unpack_{layout}"
            self.namespace[unpack] = self.namespace[layout].unpack_from
            self.line(f"{targets}{',' if len(self.run) == 1 else ''} = {unpack}(b, p)")
            self.line(f"p += {self.namespace[layout].size}")
        for text in self.after_run:
            self.line(text)
        self.run.clear()
        self.after_run.clear()

    def fail_if(self, condition: str, what: str) -> None:
        """Raise DecodeError under a condition."""
        self.line(f"if {condition}:")
        self.line(f"    raise DecodeError('{self.cls.__name__} version {self.version}: {what}')")

    def structure(self, cls: type, target: str) -> None:
        """Make an object and read its fields into it."""
        schema = schema_of(cls)
        self.line(f"{target} = new({self.constant('Class', cls)})")
        for each in schema.absent_fields(self.version):
            self.default(each, f"{target}.{each.name}")
        for each in schema.plain_fields(self.version):
            is_flexible = self.is_flexible and each.is_flexible
            is_nullable = self.version in each.nullable
            self.value(
                each.type,
                f"{target}.{each.name}",
                is_flexible=is_flexible,
                is_nullable=is_nullable,
                what=each.name,
            )
        if self.is_flexible:
            self.tagged_section(schema.tagged_fields(self.version), target)

    def default(self, each: Field, target: str) -> None:
        """Set a field that the input does not have."""
        if each.has_fresh_default:
            maker = fresh_maker(each)
            text = "[]" if maker is list else f"{self.constant('fresh', maker)}()"
        else:
            value = default_value(each)
            is_plain = value is None or isinstance(value, bool | int | str)
            text = repr(value) if is_plain else self.constant("default", value)
        self.line(f"{target} = {text}")

    def value(
        self, type_: FieldType, target: str, *, is_flexible: bool, is_nullable: bool, what: str
    ) -> None:
        """Read a value into a target."""
        if isinstance(type_, ArrayOf):
            self.array(
                type_.element, target, is_flexible=is_flexible, is_nullable=is_nullable, what=what
            )
        elif not isinstance(type_, Primitive):
            if is_nullable:
                self.nullable_structure(type_, target, what)
            else:
                inner = self.name("o")
                self.structure(type_, inner)
                self.after_run.append(f"{target} = {inner}")
        elif type_ is UUID:
            raw = self.name("u")
            self.run.append((type_.code, raw))
            self.after_run.append(f"{target} = make_uuid({raw})")
        elif type_.code:
            self.run.append((type_.code, target))
        else:
            self.content(type_, target, is_flexible=is_flexible, is_nullable=is_nullable, what=what)

    def length(
        self, code: str, *, is_flexible: bool, longest: int | None = None, is_long: bool = False
    ) -> str:
        """Read a length; a flexible one is a name whose value is one more than the length.

        is_long  it often has two bytes, which are read without a call
        longest  what a flexible one may be; another is bounded by its code
        """
        length = self.name("n")
        self.run.append(("B" if is_flexible else code, length))
        self.flush()
        if is_flexible:
            self.line(f"if {length} > 127:")
            if is_long:
                self.line("    if b[p] < 128:")
                self.line(f"        {length} += (b[p] << 7) - 128")
                self.line("        p += 1")
                self.line("    else:")
                self.line(f"        {length}, p = rest_of_uvarint(b, p, {length})")
            else:
                self.line(f"    {length}, p = rest_of_uvarint(b, p, {length})")
            if longest is not None:
                self.line(f"    if {length} > {longest + 1}:")
                what = f"a string of more than {longest} bytes"
                self.line(f"        raise DecodeError('{self.cls.__name__}: {what}')")
        return length

    def content(
        self, type_: Primitive, target: str, *, is_flexible: bool, is_nullable: bool, what: str
    ) -> None:
        """Read a string, bytes or records."""
        is_string = type_ is STRING
        length = self.length(
            "h" if is_string else "i",
            is_flexible=is_flexible,
            longest=STRING_BYTES_MAX if is_string else None,
            is_long=type_ is RECORDS,
        )
        slice_ = {
            STRING: "b[p:q].tobytes().decode()",
            BYTES: "b[p:q].tobytes()",
            RECORDS: "b[p:q]",
        }[type_]
        last = f"p + {length} - 1" if is_flexible else f"p + {length}"
        if not is_nullable:
            self.line(f"q = {last}")
            self.fail_if("not p <= q <= end", f"length of {what}")
            self.line(f"{target} = {slice_}")
            self.line("p = q")
            return
        null = 0 if is_flexible else -1
        with self.block(f"if {length} > {null}:"):
            self.line(f"q = {last}")
            self.fail_if("q > end", f"length of {what}")
            self.line(f"{target} = {slice_}")
            self.line("p = q")
        with self.block("else:"):
            if not is_flexible:
                self.fail_if(f"{length} != -1", f"length of {what}")
            self.line(f"{target} = None")

    def nullable_structure(self, cls: type, target: str, what: str) -> None:
        """Read a byte that says whether a structure follows, and then it."""
        presence = self.name("n")
        self.run.append(("b", presence))
        self.flush()
        self.present_structure(cls, target, what, f"{presence} == 1", f"{presence} != -1")

    def present_structure(
        self, cls: type, target: str, what: str, is_present: str, is_wrong: str
    ) -> None:
        """Read a structure under a condition, else set None."""
        inner = self.name("o")
        with self.block(f"if {is_present}:"):
            self.structure(cls, inner)
            self.flush()
            self.line(f"{target} = {inner}")
        with self.block("else:"):
            self.fail_if(is_wrong, f"neither null nor present: {what}")
            self.line(f"{target} = None")

    def array(
        self,
        element: Primitive | type,
        target: str,
        *,
        is_flexible: bool,
        is_nullable: bool,
        what: str,
    ) -> None:
        """Read a count and the elements."""
        count = self.length("i", is_flexible=is_flexible)
        if is_flexible:
            self.line(f"{count} -= 1")
        if is_nullable:
            with self.block(f"if {count} == -1:"):
                self.line(f"{target} = None")
            with self.block("else:"):
                self.elements(element, target, count, is_flexible=is_flexible, what=what)
        else:
            self.elements(element, target, count, is_flexible=is_flexible, what=what)

    def elements(
        self, element: Primitive | type, target: str, count: str, *, is_flexible: bool, what: str
    ) -> None:
        """Read so many elements, if the bytes left can hold them."""
        least = size_min(element, self.version, is_flexible=is_flexible)
        assert least > 0, f"an element of {what} may take no bytes at all"
        self.fail_if(f"{count} < 0 or {count} * {least} > end - p", f"count of {what}")
        if self.in_steps:
            self.line(f"left -= {count}")
            self.fail_if("left < 0", f"too many elements up to {what}")
        if isinstance(element, Primitive) and element.code and element is not UUID:
            self.numbers(element, target, count)
            return
        fixed = self.fixed_fields(element)
        if fixed:
            self.fixed_structures(element, fixed, target, count)
            return
        items, item = self.name("items"), self.name("o")
        self.line(f"{items} = []")
        with self.block(f"while {count}:"):
            self.line(f"{count} -= 1")
            if isinstance(element, type):
                self.structure(element, item)
            else:
                self.value(element, item, is_flexible=is_flexible, is_nullable=False, what=what)
            self.flush()
            self.line(f"{items}.append({item})")
            self.step()
        self.line(f"{target} = {items}")

    def step(self) -> None:
        """Let the caller do other work."""
        if self.in_steps:
            self.line("yield")

    def numbers(self, element: Primitive, target: str, count: str) -> None:
        """Read an array of numbers at once."""
        unpacks = f"unpacks_{element.code.replace('?', 'o')}"
        self.namespace[unpacks] = counted_unpacks(element.code)
        self.line(f"if {count} <= {COUNTED_MAX}:")
        self.line(f"    {target} = list({unpacks}[{count}](b, p))")
        self.line("else:")
        self.line(f"    {target} = list(unpack_from(f'>{{{count}}}{element.code}', b, p))")
        self.line(f"p += {count} * {element.size_bytes}")

    def fixed_fields(self, element: FieldType) -> list[Field]:
        """The fields of a structure that is a row of fixed-size values, else none."""
        if self.is_flexible or isinstance(element, Primitive | ArrayOf):
            return []
        fields = schema_of(element).plain_fields(self.version)
        is_fixed = all(isinstance(each.type, Primitive) and each.type.code for each in fields)
        return fields if is_fixed else []

    def fixed_structures(
        self, cls: FieldType, fields: list[Field], target: str, count: str
    ) -> None:
        """Read an array of structures that are rows of fixed-size values."""
        assert isinstance(cls, type)
        items, item = self.name("items"), self.name("o")
        codes = "".join(each.type.code for each in fields if isinstance(each.type, Primitive))
        layout = self.layout(codes)
        values = [self.name("v") for _ in fields]
        self.line(f"{items} = []")
        self.line(f"q = p + {count} * {self.namespace[layout].size}")
        with self.block(f"for {', '.join(values)}, in {layout}.iter_unpack(b[p:q]):"):
            self.line(f"{item} = new({self.constant('Class', cls)})")
            for each in schema_of(cls).absent_fields(self.version):
                self.default(each, f"{item}.{each.name}")
            for each, value in zip(fields, values, strict=True):
                text = f"make_uuid({value})" if each.type is UUID else value
                self.line(f"{item}.{each.name} = {text}")
            self.line(f"{items}.append({item})")
            self.step()
        self.line("p = q")
        self.line(f"{target} = {items}")

    def tagged_section(self, tagged: list[Field], target: str) -> None:
        """Read the tagged fields that are known, skip the others."""
        count = self.name("t")
        for each in tagged:
            self.default(each, f"{target}.{each.name}")
        self.run.append(("B", count))
        self.flush()
        if not tagged:
            self.line(f"if {count}:")
            self.line(f"    p = skip_tags(b, p, {count})")
            return
        tag, size, stop = self.name("tag"), self.name("n"), self.name("stop")
        with self.block(f"if {count}:"):
            self.line(f"if {count} > 127:")
            self.line(f"    {count}, p = rest_of_uvarint(b, p, {count})")
            self.line(f"    check_tag_count({count})")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, p = uvarint_at(b, p)")
                self.line(f"{size}, p = uvarint_at(b, p)")
                self.line(f"{stop} = p + {size}")
                self.fail_if(f"{stop} > end", "a tagged field runs over the end")
                for each in tagged:
                    with self.block(f"if {tag} == {each.tag}:"):
                        self.tagged_field(each, f"{target}.{each.name}")
                        self.flush()
                        self.fail_if(f"p != {stop}", f"size of {each.name}")
                self.line(f"p = {stop}")

    def tagged_field(self, each: Field, target: str) -> None:
        """Read the content of a tagged field."""
        is_nullable = self.version in each.nullable
        if is_nullable and isinstance(each.type, type):
            presence = self.length("", is_flexible=True)
            self.present_structure(
                each.type, target, each.name, f"{presence} == 1", f"{presence} != 0"
            )
            return
        self.value(each.type, target, is_flexible=True, is_nullable=is_nullable, what=each.name)
