"""JSON that tools read from files, with the errors of Kafka's tools for a wrong shape.

Source: Kafka 3.9's org.apache.kafka.server.util.Json and its package json.
"""

from __future__ import annotations

import errno
import io
import json
from typing import Any, Final

from odradek.bounded_files import read_file
from odradek.bounded_parsing import UnreadableText, first_json_value
from odradek.tools.errors import ToolError
from odradek.tools.options import INT32_MAX, INT64_MAX

BYTES_MAX: Final = 64 << 20
"""The size that a file of a tool may have."""


class JsonError(ToolError):
    """A value has the wrong type, or a field is missing."""


class UnreadableFileError(ToolError):
    """A file cannot be read."""


class JsonReader:
    """A JSON value and its conversions."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return to_json(self.value)

    def _object(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise JsonError(f"Expected JSON object, received {self}")
        return self.value

    def field(self, name: str) -> JsonReader | None:
        """A field of an object, or None; raises  JsonError unless this is an object."""
        fields = self._object()
        return JsonReader(fields[name]) if name in fields else None

    def required(self, name: str) -> JsonReader:
        """A field of an object; raises  JsonError when it is missing."""
        field = self.field(name)
        if field is None:
            raise JsonError(f"No such field exists: `{name}`")
        return field

    def elements(self) -> list[JsonReader]:
        """The elements of an array, which have to be objects or are checked by the caller."""
        if not isinstance(self.value, list):
            raise JsonError(f"Expected JSON array, received {self}")
        return [JsonReader(value) for value in self.value]

    def integer(self) -> int:
        """An int32; raises  JsonError."""
        return self._number("Integer", INT32_MAX)

    def long(self) -> int:
        """An int64; raises  JsonError."""
        return self._number("Long", INT64_MAX)

    def _number(self, kind: str, largest: int) -> int:
        is_number = isinstance(self.value, int) and not isinstance(self.value, bool)
        if not is_number or not -largest - 1 <= self.value <= largest:
            raise JsonError(f"Expected `{kind}` value, received {self}")
        return int(self.value)

    def text(self) -> str:
        """A string; raises  JsonError."""
        if not isinstance(self.value, str):
            raise JsonError(f"Expected `String` value, received {self}")
        return self.value

    def list(self) -> list[JsonReader]:
        """The elements of a list of one type; raises  JsonError."""
        if not isinstance(self.value, list):
            raise JsonError(f"Expected `JSON array` value, received {self}")
        return [JsonReader(value) for value in self.value]


def to_json(value: Any) -> str:
    """One line without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_text(path: str) -> str:
    """The text of a file.

    raises  UnreadableFileError
    """
    try:
        content = read_file(path, BYTES_MAX)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise UnreadableFileError(f"{path} has {error.strerror}") from error
        raise UnreadableFileError(f"Unable to read file {path}") from error
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace").read()


def parse_json(text: str) -> JsonReader | None:
    """The first JSON value of a text; None when there is none."""
    try:
        return JsonReader(first_json_value(text))
    except UnreadableText:
        return None


def read_json(path: str) -> JsonReader | None:
    """The first JSON value in a file; None when there is none.

    raises  UnreadableFileError
    """
    return parse_json(read_text(path))
