"""Parses the schemas in a pipeline file, to report their errors before Spark starts.

`id STRING, amount DECIMAL(10, 2) NOT NULL, lines ARRAY<STRUCT<item: STRING, count: INT>>`: as in
Spark's `CREATE TABLE`.  Avro's are JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.pipeline.spec.field_types import Text, first_duplicate

TYPES: Final = (
    "BIGINT, BINARY, BOOLEAN, BYTE, CHAR, CHARACTER, DATE, DEC, DECIMAL, DOUBLE, FLOAT, INT,"
    " INTEGER, INTERVAL, LONG, NUMERIC, REAL, SHORT, SMALLINT, STRING, TIMESTAMP, TIMESTAMP_LTZ,"
    " TIMESTAMP_NTZ, TINYINT, VARCHAR, VARIANT, VOID"
)
SIZED: Final = ("CHAR", "CHARACTER", "VARCHAR")
DECIMALS: Final = ("DEC", "DECIMAL", "NUMERIC")
NESTED: Final = ("ARRAY", "MAP", "STRUCT", "VARIANT")
TIMES: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
PRECISION_MAX: Final = 38
TOKEN: Final = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([^\W]\w*)|([<>(),:]))"
)
"""A quoted name, a string, a word or number, or a punctuation mark."""
Unit = Literal["s", "ms", "us", "ns"]
Epoch = Unit | dict[Text, Unit] | None
"""The unit of numbers since 1970 in TIMESTAMP columns: one for all, or column -> unit, where
`order.at` is a field in a column.  None: numbers are not accepted."""


class BadSchema(ValueError):
    """Spark would reject the schema; the message gives place and reason."""


def columns_of(text: str) -> list[str]:
    """The names of the columns, in order.

    raises  BadSchema
    """
    reader = _Reader(_tokens(text))
    names = reader.fields("")
    if reader.peek():
        raise BadSchema(f"{reader.peek()!r} found where a comma or the end is expected")
    return _unique(names)


def flat_columns_of(text: str) -> list[str]:
    """The names of the columns of a schema for CSV, which has no nested types.

    raises  BadSchema
    """
    reader = _Reader(_tokens(text))
    reader.fields("")
    for name, kind in reader.kinds.items():
        if kind in NESTED:
            raise BadSchema(f"column {name}: CSV has no {kind}; read it as STRING")
    return columns_of(text)


def times_of(text: str) -> list[str]:
    """Paths of the columns and fields with a TIMESTAMP, such as `order.at`.

    For a TIMESTAMP in an array or a map it is the path of the column.

    raises  BadSchema
    """
    reader = _Reader(_tokens(text))
    reader.fields("")
    return list(dict.fromkeys(reader.times))


def check_epoch(epoch: Epoch, row_schema: str) -> None:
    """Check that units are given for TIMESTAMP columns only.

    raises  ValueError
    """
    if epoch is None:
        return
    times = times_of(row_schema)
    if not times:
        raise ValueError("epoch: the schema has no TIMESTAMP column")
    for name in epoch if isinstance(epoch, dict) else ():
        if name not in times:
            raise ValueError(
                f"epoch: {name!r} is not a TIMESTAMP of the schema; there are: {', '.join(times)}"
            )


def avro_columns_of(text: str) -> list[str]:
    """The names of the fields of an Avro schema, in order.

    raises  BadSchema
    """
    try:
        schema: Any = parse_json(text)
    except UnreadableText as error:
        raise BadSchema(f"an Avro schema is JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise BadSchema('an Avro schema is a record: {"type": "record", "name": ..., "fields": []}')
    if not isinstance(schema.get("name"), str):
        raise BadSchema("the Avro record has no name")
    fields = schema.get("fields")
    if not isinstance(fields, list) or not fields:
        raise BadSchema("the Avro record has no fields")
    for number, part in enumerate(fields):
        if (
            not isinstance(part, dict)
            or not isinstance(part.get("name"), str)
            or "type" not in part
        ):
            raise BadSchema(f"field {number + 1} of the Avro record needs a name and a type")
    return _unique([part["name"] for part in fields])


def _unique(names: list[str]) -> list[str]:
    again = first_duplicate(names)
    if again is not None:
        raise BadSchema(f"column {again} exists twice")
    return names


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    end = len(text.rstrip())
    while place < end:
        match = TOKEN.match(text, place)
        if match is None:
            raise BadSchema(f"{text[place:].strip()[:20]!r} is not understood")
        tokens.append(match.group().strip())
        place = match.end()
    return tokens


@dataclass(slots=True)
class _Reader:
    tokens: list[str]
    place: int = field(default=0)
    kinds: dict[str, str] = field(default_factory=dict)
    """Path of a column -> the first word of its type."""
    times: list[str] = field(default_factory=list)
    """Paths with a TIMESTAMP in them."""

    def peek(self) -> str:
        """The next token, or an empty string at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        """Return the next token and advance."""
        token = self.peek()
        self.place += 1
        return token

    def expect(self, mark: str, after: str) -> None:
        """Consume a punctuation mark."""
        token = self.take()
        if token != mark:
            text = repr(token) if token else "nothing"
            raise BadSchema(f"{text} found where {mark!r} is expected after {after}")

    def fields(self, above: str) -> list[str]:
        """Parse names with types, separated by commas; returns the names."""
        names = [self.column(above)]
        while self.peek() == ",":
            self.take()
            names.append(self.column(above))
        return names

    def column(self, above: str) -> str:
        """Parse a name, its type, and NOT NULL and COMMENT; returns the name."""
        token = self.take()
        if not re.fullmatch(r"\w+|`.+`", token):
            text = repr(token) if token else "nothing"
            raise BadSchema(f"{text} found where the name of a column is expected")
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        path = above + name
        if self.peek() == ":":
            self.take()
        self.type(path)
        if self.peek().upper() == "NOT":
            self.take()
            self.expect_word("NULL", f"NOT of {path}")
        if self.peek().upper() == "COMMENT":
            self.take()
            self.take()
        return name

    def expect_word(self, word: str, after: str) -> None:
        """Consume a word, ignoring case."""
        if self.take().upper() != word:
            raise BadSchema(f"{word} is expected after {after}")

    def type(self, path: str) -> None:
        """Parse a type."""
        token = self.take()
        name = token.upper()
        self.kinds.setdefault(path, name)
        if name in TIMES:
            self.times.append(path)
        if name == "ARRAY":
            self.expect("<", f"ARRAY of {path}")
            self.type(path)
            self.expect(">", f"ARRAY of {path}")
        elif name == "MAP":
            self.expect("<", f"MAP of {path}")
            self.type(path)
            self.expect(",", f"the key of {path}")
            self.type(path)
            self.expect(">", f"MAP of {path}")
        elif name == "STRUCT":
            self.expect("<", f"STRUCT of {path}")
            if self.peek() != ">":
                self.fields(path + ".")
            self.expect(">", f"STRUCT of {path}")
        elif name in TYPES.split(", "):
            self.details(name, path)
        else:
            reason = f"{token!r} is not a type" if token else "a type is missing"
            raise BadSchema(
                f"column {path}: {reason}; there are: {TYPES}, ARRAY<...>, MAP<..., ...>,"
                " STRUCT<...>"
            )

    def details(self, name: str, path: str) -> None:
        """Parse the parameters of a type: sizes, units, collations."""
        if name in SIZED:
            self.sizes(name, path, 1)
        elif name in DECIMALS and self.peek() == "(":
            self.sizes(name, path, 2)
        elif name == "INTERVAL":
            self.take()
            if self.peek().upper() == "TO":
                self.take()
                self.take()
        elif name == "STRING" and self.peek().upper() == "COLLATE":
            self.take()
            self.take()

    def sizes(self, name: str, path: str, most: int) -> None:
        """Parse up to `most` numbers in parentheses."""
        self.expect("(", f"{name} of {path}")
        sizes = [self.take()]
        while self.peek() == ",":
            self.take()
            sizes.append(self.take())
        self.expect(")", f"{name} of {path}")
        if len(sizes) > most or not all(size.isdecimal() for size in sizes):
            raise BadSchema(f"column {path}: {name}({', '.join(sizes)}) is not understood")
        if name not in DECIMALS:
            return
        if not 1 <= int(sizes[0]) <= PRECISION_MAX:
            raise BadSchema(f"column {path}: {name} has 1 to {PRECISION_MAX} digits")
        if len(sizes) > 1 and int(sizes[1]) > int(sizes[0]):
            reason = f"{sizes[1]} of {sizes[0]} digits cannot follow the decimal point"
            raise BadSchema(f"column {path}: {name}: {reason}")
