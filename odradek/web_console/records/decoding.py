"""Keys and values as text: as they are, as JSON, as hexadecimal digits, or by a schema registry."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, Protocol

from odradek.bounded_parsing import UnreadableText, parse_json

JSON_BYTES_MAX: Final = 8 << 20
HEX_BYTES_MAX: Final = 4096
FRAME_BYTES: Final = 5
"""The header of a record with a schema: a zero byte and the id of the schema."""


class Undecodable(Exception):
    """Bytes are not what they should be; the message says why."""


class Schemas(Protocol):
    """Decodes records with the schema of their writer."""

    def decode(self, data: bytes) -> tuple[str, Any]:
        """The kind of schema and the value, of types that JSON has.

        raises  Undecodable
        """


class DecodedText(NamedTuple):
    """A key or a value as text."""

    text: str
    format: str
    """What it was taken for; `hex` for what is not text."""


class TextDecoder:
    """Decodes the keys and values of a query."""

    def __init__(self, key_format: str, value_format: str, schemas: Schemas | None) -> None:
        """
        key_format, value_format  elements of FORMATS
        schemas                   None: there is no registry
        """
        self._key_format = key_format
        self._value_format = value_format
        self._schemas = schemas
        self.key_has_schema = schemas is not None and key_format in ("auto", "registry")

    def key(self, data: bytes, *, is_pretty: bool = False) -> DecodedText:
        return self._decode(data, self._key_format, is_pretty)

    def value(self, data: bytes, *, is_pretty: bool = False) -> DecodedText:
        return self._decode(data, self._value_format, is_pretty)

    def value_data(self, data: bytes) -> Any:
        """The value of a document.

        raises  Undecodable
        """
        if self.is_framed(data) and self._schemas is not None:
            return self._schemas.decode(data)[1]
        return parse_document(data)

    def is_framed(self, data: bytes) -> bool:
        """Whether a registry may have the schema of the data."""
        return self._schemas is not None and len(data) >= FRAME_BYTES and data[0] == 0

    def _decode(self, data: bytes, wanted_format: str, is_pretty: bool) -> DecodedText:
        try:
            match wanted_format:
                case "hex":
                    return DecodedText(hex_text(data), "hex")
                case "text":
                    return DecodedText(data.decode("utf-8", "replace"), "text")
                case "json":
                    return DecodedText(_json_text(parse_document(data), is_pretty), "json")
                case "registry":
                    return self._by_schema(data, is_pretty)
            return self._guess(data, is_pretty)
        except Undecodable as error:
            return DecodedText(f"{error}: {hex_text(data)}", "hex")

    def _by_schema(self, data: bytes, is_pretty: bool) -> DecodedText:
        if self._schemas is None:
            raise Undecodable("the console has no --schema-registry")
        kind, value = self._schemas.decode(data)
        return DecodedText(_json_text(value, is_pretty), kind)

    def _guess(self, data: bytes, is_pretty: bool) -> DecodedText:
        if self.is_framed(data):
            try:
                return self._by_schema(data, is_pretty)
            except Undecodable:
                pass
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return DecodedText(hex_text(data), "hex")
        if text[:1] in ("{", "["):
            try:
                value = parse_document(data)
            except Undecodable:
                pass
            else:
                return DecodedText(_json_text(value, is_pretty) if is_pretty else text, "json")
        if any(character < " " and character not in "\t\r\n" for character in text):
            return DecodedText(hex_text(data), "hex")
        return DecodedText(text, "text")


def parse_document(data: bytes) -> Any:
    """The value of a text of JSON; raises  Undecodable."""
    try:
        return parse_json(data, bytes_max=JSON_BYTES_MAX)
    except UnreadableText as error:
        raise Undecodable(f"not JSON: {error}") from None


def _json_text(value: Any, is_pretty: bool) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2 if is_pretty else None)


def hex_text(data: bytes) -> str:
    """Hexadecimal digits of the first HEX_BYTES_MAX bytes."""
    more = f" … {len(data)} bytes" if len(data) > HEX_BYTES_MAX else ""
    return data[:HEX_BYTES_MAX].hex(" ") + more
