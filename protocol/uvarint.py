"""Unsigned varints and tagged sections, for generated code and for headers.

Seven bits a byte, the lowest first, the high bit set on all but the last; five bytes at most.
Source: KIP-482.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.decode_error import DecodeError

SHIFT_MAX: Final = 28
TAGS_MAX: Final = 1_000
"""Tagged fields of one structure.  Differs from Kafka, which skips any number of unknown ones; its
own messages have fewer than ten."""


def encode_uvarint(value: int) -> bytes:
    """The bytes of a varint."""
    if 0x7F < value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 0x3FFF < value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    output = bytearray()
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
    return bytes(output)


def rest_of_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """The value of a varint whose first byte, just before `position`, has its high bit set."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > SHIFT_MAX:
            raise DecodeError("a varint of more than 5 bytes")


def uvarint_at(buffer: memoryview, position: int) -> tuple[int, int]:
    """A varint and the position after it."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    return rest_of_uvarint(buffer, position + 1, byte)


def check_tag_count(count: int) -> None:
    """Raises DecodeError for more tagged fields than any message has."""
    if count > TAGS_MAX:
        raise DecodeError(f"a tagged section of {count} fields")


def skip_tags(buffer: memoryview, position: int, count: int) -> int:
    """The end of a tagged section whose count begins with the byte `count` before `position`."""
    if count > 0x7F:
        count, position = rest_of_uvarint(buffer, position, count)
    check_tag_count(count)
    end = len(buffer)
    for _ in range(count):
        _, position = uvarint_at(buffer, position)
        size, position = uvarint_at(buffer, position)
        position += size
        if position > end:
            raise DecodeError("a tagged field runs over the end")
    return position
