"""The reference codec: walks the schema field by field, slow and plain.

The generated functions of `protocol/compiler` are compared with it, byte for byte, and it is the
shortest description of the wire format there is:

    string      int16 length, -1 null   | flexible: uvarint length + 1, 0 null
    bytes       int32 length, -1 null   | flexible: uvarint length + 1, 0 null
    array       int32 count, -1 null    | flexible: uvarint count + 1, 0 null
    structure   its fields              | flexible: then the tagged section
    nullable    int8 -1 null, 1 present, then the structure
    tagged      uvarint count, then (uvarint tag, uvarint size, content), tags ascending;
    section     a field with its default is left out; a nullable structure is uvarint 0 or 1 first

Source: kafka.apache.org/protocol, KIP-482, KIP-893.
"""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID as Uuid

from odradek.protocol.decode_error import DecodeError
from odradek.protocol.schema import (
    BOOL,
    BYTES,
    RECORDS,
    STRING,
    STRING_BYTES_MAX,
    UUID,
    ArrayOf,
    Field,
    FieldType,
    Primitive,
    Required,
    default_value,
    schema_of,
)

UVARINT_BYTES_MAX = 5
TAGS_MAX = 1_000


def decode(cls: type, version: int, buffer: memoryview, position: int = 0) -> tuple[Any, int]:
    """The value that begins at `position`, and where it ends.  Raises DecodeError."""
    reader = Reader(buffer, position, version, is_flexible=version in schema_of(cls).flexible)
    return reader.structure(cls), reader.position


def encode(value: object, version: int) -> bytes:
    """The bytes of a message; records must be bytes-like."""
    cls = type(value)
    writer = Writer(version, is_flexible=version in schema_of(cls).flexible)
    writer.structure(value)
    return bytes(writer.output)


def has_default(value: object, each: Field) -> bool:
    """Whether a tagged field is left out."""
    if is_struct(each.type) and each.default is None:
        return value is None or value == default_struct(each.type)
    return bool(value == default_value(each))


def is_struct(type_: FieldType) -> bool:
    """Whether the type is a declared structure."""
    return isinstance(type_, type)


def default_struct(cls: Any) -> Any:
    """The structure whose fields all have their defaults, or None if one of them has none."""
    fields = schema_of(cls).fields
    return cls() if all(each.default is not Required for each in fields) else None


class Reader:
    """A position in a buffer."""

    def __init__(
        self, buffer: memoryview, position: int, version: int, *, is_flexible: bool
    ) -> None:
        self.buffer = buffer
        self.position = position
        self.version = version
        self.is_flexible = is_flexible

    def take(self, size: int) -> memoryview:
        """The next bytes."""
        if size < 0 or size > len(self.buffer) - self.position:
            raise DecodeError(f"{size} bytes wanted at {self.position} of {len(self.buffer)}")
        self.position += size
        return self.buffer[self.position - size : self.position]

    def uvarint(self) -> int:
        """An unsigned varint."""
        value = 0
        for index in range(UVARINT_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise DecodeError("a varint of more than 5 bytes")

    def number(self, code: str) -> Any:
        """A value of fixed size, by its letter of the struct module."""
        return struct.unpack(f">{code}", self.take(struct.calcsize(f">{code}")))[0]

    def length(self, code: str, *, is_flexible: bool) -> int:
        """-1 for null."""
        length: int = self.uvarint() - 1 if is_flexible else self.number(code)
        if length < -1:
            raise DecodeError(f"length {length}")
        return length

    def structure(self, cls: type) -> Any:
        """A structure with its tagged section."""
        schema = schema_of(cls)
        values: dict[str, Any] = {}
        for each in schema.absent_fields(self.version):
            values[each.name] = default_value(each)
        for each in schema.plain_fields(self.version):
            values[each.name] = self.field(each)
        if self.is_flexible:
            tagged = {each.tag: each for each in schema.tagged_fields(self.version)}
            values |= {each.name: default_value(each) for each in tagged.values()}
            count = self.uvarint()
            if count > TAGS_MAX:
                raise DecodeError(f"a tagged section of {count} fields")
            for _ in range(count):
                tag, size = self.uvarint(), self.uvarint()
                end = self.position + size
                content = self.take(size)
                if tag in tagged:
                    self.position -= len(content)
                    values[tagged[tag].name] = self.tagged(tagged[tag])
                    if self.position != end:
                        raise DecodeError(f"tag {tag} is not as long as it says")
        return cls(**values)

    def tagged(self, each: Field) -> Any:
        """The content of a tagged field."""
        if is_struct(each.type) and self.version in each.nullable:
            presence = self.uvarint()
            if presence > 1:
                raise DecodeError(f"{presence} before a nullable structure")
            return self.value(each.type) if presence else None
        return self.field(each)

    def field(self, each: Field) -> Any:
        """A field, which may be null if its declaration says so."""
        nullable = self.version in each.nullable
        if not nullable and not is_struct(each.type):
            value = self.value(each.type, is_flexible=self.is_flexible and each.is_flexible)
            if value is None:
                raise DecodeError(f"{each.name} is null")
            return value
        if nullable and is_struct(each.type):
            presence = self.number("b")
            if presence not in (-1, 1):
                raise DecodeError(f"{presence} before a nullable structure")
            return self.value(each.type) if presence == 1 else None
        return self.value(each.type, is_flexible=self.is_flexible and each.is_flexible)

    def value(self, type_: FieldType, *, is_flexible: bool | None = None) -> Any:
        """A value; None for the null of a string, of bytes or of an array."""
        if is_flexible is None:
            is_flexible = self.is_flexible
        if isinstance(type_, ArrayOf):
            return self.array(type_.element, is_flexible=is_flexible)
        if not isinstance(type_, Primitive):
            return self.structure(type_)
        if type_ is UUID:
            return Uuid(bytes=bytes(self.take(16)))
        if type_.code:
            return self.number(type_.code)
        length = self.length("h" if type_ is STRING else "i", is_flexible=is_flexible)
        if length < 0:
            return None
        if type_ is STRING and length > STRING_BYTES_MAX:
            raise DecodeError(f"a string of {length} bytes")
        content = self.take(length)
        if type_ is RECORDS:
            return content
        if type_ is BYTES:
            return bytes(content)
        try:
            return str(content, "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(str(error)) from error

    def array(self, element: Primitive | type, *, is_flexible: bool) -> list[Any] | None:
        """The elements, none of which may be null."""
        count = self.length("i", is_flexible=is_flexible)
        if count < 0:
            return None
        if count > len(self.buffer) - self.position:
            raise DecodeError(f"{count} elements in the {len(self.buffer)} bytes of the message")
        elements = []
        for _ in range(count):
            value = self.value(element)
            if value is None:
                raise DecodeError("an element of an array is null")
            elements.append(value)
        return elements


class Writer:
    """Bytes that grow at the end."""

    def __init__(self, version: int, *, is_flexible: bool) -> None:
        self.output = bytearray()
        self.version = version
        self.is_flexible = is_flexible

    def uvarint(self, value: int) -> None:
        """An unsigned varint."""
        while value >= 0x80:
            self.output.append(value & 0x7F | 0x80)
            value >>= 7
        self.output.append(value)

    def length(self, length: int, code: str, *, is_flexible: bool) -> None:
        """A length or a count; -1 for null."""
        if is_flexible:
            self.uvarint(length + 1)
        else:
            self.output += struct.pack(f">{code}", length)

    def structure(self, value: object) -> None:
        """A structure with its tagged section."""
        schema = schema_of(type(value))
        for each in schema.plain_fields(self.version):
            self.field(getattr(value, each.name), each)
        if self.is_flexible:
            tagged = schema.tagged_fields(self.version)
            written = [each for each in tagged if not has_default(getattr(value, each.name), each)]
            self.uvarint(len(written))
            for each in written:
                content = Writer(self.version, is_flexible=True)
                content.tagged(getattr(value, each.name), each)
                assert each.tag is not None
                self.uvarint(each.tag)
                self.uvarint(len(content.output))
                self.output += content.output

    def tagged(self, value: object, each: Field) -> None:
        """The content of a tagged field."""
        if is_struct(each.type) and self.version in each.nullable:
            self.uvarint(0 if value is None else 1)
            if value is not None:
                self.structure(value)
        else:
            self.field(value, each)

    def field(self, value: object, each: Field) -> None:
        """A field, which may be None if its declaration says so."""
        nullable = self.version in each.nullable
        assert nullable or value is not None, f"{each.name} may not be null"
        if is_struct(each.type) and nullable:
            self.output += b"\xff" if value is None else b"\x01"
            if value is None:
                return
        self.value(value, each.type, is_flexible=self.is_flexible and each.is_flexible)

    def value(self, value: Any, type_: FieldType, *, is_flexible: bool) -> None:
        """A value, or the null of a string, of bytes or of an array."""
        if isinstance(type_, ArrayOf):
            self.length(-1 if value is None else len(value), "i", is_flexible=is_flexible)
            for each in value or ():
                self.value(each, type_.element, is_flexible=is_flexible)
        elif not isinstance(type_, Primitive):
            self.structure(value)
        elif type_ is UUID:
            self.output += value.bytes
        elif type_ is BOOL:
            self.output += b"\x01" if value else b"\x00"
        elif type_.code:
            self.output += struct.pack(f">{type_.code}", value)
        else:
            content = value.encode() if type_ is STRING and value is not None else value
            code = "h" if type_ is STRING else "i"
            self.length(-1 if value is None else len(content), code, is_flexible=is_flexible)
            self.output += content or b""
