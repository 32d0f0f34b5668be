"""`__init__`, `__eq__` and `__hash__` as `dataclasses` generates them, in a third of its time.

For each method the standard library makes a class, and for a frozen one two methods more.

Source: dataclasses._process_class, _init_fn, _cmp_fn, _hash_fn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, NamedTuple


class _Absent:
    """The default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


ABSENT: Final = _Absent()
UNUSUAL_TYPES: Final = ("InitVar", "KW_ONLY")


class Declaration(NamedTuple):
    """What a class says of its methods.

    types     of the fields, in order
    defaults  values and `dataclasses.field(...)`
    """

    cls: type
    types: Mapping[str, Any]
    defaults: Mapping[str, Any]
    is_frozen: bool
    is_keyword_only: bool

    def is_common(self) -> bool:
        """Whether `write` is enough; other fields are refused or served by the standard library."""
        has_default = [name in self.defaults for name in self.types]
        types = " ".join(map(str, self.types.values()))
        return (
            (self.is_keyword_only or has_default == sorted(has_default))
            and all(map(_is_common, self.defaults.values()))
            and not any(map(dataclasses.is_dataclass, self.cls.__bases__))
            and not any(word in types for word in UNUSUAL_TYPES)
        )


def _is_common(default: Any) -> bool:
    if not isinstance(default, dataclasses.Field):
        return type(default).__hash__ is not None
    return (
        default.default_factory is not dataclasses.MISSING
        and default.init
        and default.compare
        and default.hash is None
        and default.kw_only is dataclasses.MISSING
    )


def write(name: str, declared: Declaration) -> Callable[..., Any]:
    """A method of a class that `is_common`."""
    names = tuple(declared.types)
    scope: dict[str, Any] = {"__name__": declared.cls.__module__}
    if name != "__init__":
        text = f"def __hash__(self): return hash({_tuple('self', names)})"
        if name == "__eq__":
            text = (
                "def __eq__(self, other):\n"
                " if other.__class__ is self.__class__:\n"
                f"  return {_tuple('self', names)} == {_tuple('other', names)}\n"
                " return NotImplemented"
            )
        return _function(name, text, scope, declared)
    defaults = dict(declared.defaults)
    values = {field: field for field in names}
    for field, default in declared.defaults.items():
        if isinstance(default, dataclasses.Field):
            defaults[field] = ABSENT
            scope[f"__make_{field}__"] = default.default_factory
            values[field] = f"__make_{field}__() if {field} is __absent__ else {field}"
    scope |= {"__absent__": ABSENT, "__set__": object.__setattr__}
    method = _function(name, _init_text(declared, values), scope, declared)
    method.__annotations__ = {**declared.types, "return": None}
    if declared.is_keyword_only:
        method.__kwdefaults__ = defaults
    else:
        method.__defaults__ = tuple(defaults.values())
    return method


def _tuple(instance: str, names: Sequence[str]) -> str:
    return "(" + "".join(f"{instance}.{name}," for name in names) + ")"


def _init_text(declared: Declaration, values: Mapping[str, str]) -> str:
    assign = "__set__(self, {0!r}, {1})" if declared.is_frozen else "self.{0} = {1}"
    lines = [assign.format(name, value) for name, value in values.items()]
    if hasattr(declared.cls, "__post_init__"):
        lines.append("self.__post_init__()")
    star = ["*"] if declared.is_keyword_only and values else []
    parameters = ", ".join(["self", *star, *values])
    return "\n ".join([f"def __init__({parameters}):", *lines, "return None"])


def _function(name: str, text: str, scope: dict[str, Any], declared: Declaration) -> FunctionType:
    exec(text, scope)
    method: FunctionType = scope[name]
    method.__qualname__ = f"{declared.cls.__qualname__}.{name}"
    return method
