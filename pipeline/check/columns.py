"""Columns of a view with their types, as far as they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from odradek.pipeline.check.findings import instead

Type = exp.DataType | None
"""None: unknown."""

_KIND_TYPES: Final = {
    "string": ("TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR"),
    "int": ("TINYINT", "SMALLINT", "INT", "BIGINT"),
    "double": ("FLOAT", "DOUBLE"),
    "decimal": ("DECIMAL",),
    "boolean": ("BOOLEAN",),
    "date": ("DATE",),
    "timestamp": ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"),
    "binary": ("BINARY", "VARBINARY"),
    "array": ("ARRAY", "LIST"),
    "map": ("MAP",),
    "struct": ("STRUCT",),
}
_KINDS: Final = {name: kind for kind, names in _KIND_TYPES.items() for name in names}


class NoSuchColumn(ValueError):
    """A name that is neither a column nor a field; the message says what there is."""


@cache
def type_named(text: str) -> Type:
    """A type of Spark; unknown when it is not understood."""
    try:
        return exp.DataType.build(text.replace(" COLLATE", ""), dialect="spark")
    except SqlglotError:
        return None


def kind_of(kind: Type) -> str | None:
    """The kind of a type, such as `int`; None: unknown, or another."""
    # The kind of an interval is a tree.
    return None if kind is None else _KINDS.get(getattr(kind.this, "value", ""))


def shown(kind: Type) -> str:
    """A type as in Spark's SQL."""
    return "?" if kind is None else kind.sql(dialect="spark")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a view.

    is_open  there may be others
    """

    types: Mapping[str, Type] = field(default_factory=dict)
    is_open: bool = False

    def own(self, name: str) -> str | None:
        """A column's name as it is written in its view, or None; SQL ignores case."""
        return next((own for own in self.types if own.lower() == name.lower()), None)

    def plus(self, types: Mapping[str, Type]) -> Columns:
        """The columns and more; a new column replaces one of the same name."""
        merged = dict(self.types)
        for name, kind in types.items():
            merged[self.own(name) or name] = kind
        return replace(self, types=merged)

    def path(self, names: Sequence[str]) -> Type:
        """The type of a column, or of a field in it.

        raises  NoSuchColumn
        """
        own = self.own(names[0])
        if own is not None:
            return field_of(self.types[own], names[1:], own)
        if self.is_open:
            return None
        raise NoSuchColumn(f"there is no column {names[0]!r}; {instead(names[0], self.types)}")

    def named(self, name: str) -> Type:
        """The type of the column with this whole name, or else of a field: `order.price`.

        raises  NoSuchColumn
        """
        own = self.own(name)
        return self.types[own] if own is not None else self.path(name.replace("`", "").split("."))


UNKNOWN: Final = Columns(is_open=True)


def field_of(kind: Type, names: Sequence[str], above: str) -> Type:
    """The type of a field of a value.

    raises  NoSuchColumn
    """
    if not names or kind is None:
        return kind
    name, *rest = names
    match kind_of(kind):
        case "struct":
            fields = {field.name: field.args.get("kind") for field in kind.expressions}
            columns = Columns(fields)
            own = columns.own(name)
            if own is None:
                raise NoSuchColumn(f"{above} has no field {name!r}; {instead(name, fields)}")
            return field_of(_type(fields[own]), rest, f"{above}.{own}")
        case "map":
            return field_of(_type(kind.expressions[-1]) if kind.expressions else None, rest, above)
        case "array":
            inner = _type(kind.expressions[0]) if kind.expressions else None
            if inner is not None and kind_of(inner) == "struct":
                field_of(inner, names, above)
            return None
        case None:
            return None
        case _:
            raise NoSuchColumn(f"{above} is {shown(kind)} and has no field {name!r}")


def _type(value: object) -> Type:
    return value if isinstance(value, exp.DataType) else None
