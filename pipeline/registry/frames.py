"""Confluent's wire format: a zero byte, the id of the schema in 4 bytes, then the record.

In Protobuf the indexes of the message in its file come between: their number and each of them as a
zigzag varint; the first message of a file is one zero byte.
Source: Confluent's "Wire format" of Schema Registry; its clients' MessageIndexes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from pyspark.sql import Column

MAGIC: Final = 0
_HEADER: Final = Struct(">bI")
HEADER_BYTES: Final = _HEADER.size
NOT_FRAMED: Final = "no frame of a schema registry"


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a Kafka sink writes its values in a format with a schema.

    columns  of the value, in the order of the schema
    encode   from a struct of them to bytes
    """

    columns: list[str]
    encode: Callable[[Column], Column]


def header(schema_id: int) -> bytes:
    """What precedes a record."""
    return _HEADER.pack(MAGIC, schema_id)


def id_of(frame: bytes) -> int | None:
    """The id of a record's schema; None for what is not a frame."""
    if len(frame) < HEADER_BYTES:
        return None
    magic, schema_id = _HEADER.unpack_from(frame)
    return int(schema_id) if magic == MAGIC else None


def message_indexes(indexes: Sequence[int]) -> bytes:
    """The indexes of a message as they are written: (0,) as one byte."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def after_indexes(frame: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes of a message, and where the message begins.

    raises  ValueError for a frame that ends before
    """
    count, place = _read(frame, HEADER_BYTES)
    indexes: list[int] = []
    for _ in range(min(count, len(frame))):
        index, place = _read(frame, place)
        indexes.append(index)
    return tuple(indexes) or (0,), place


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read(frame: bytes, place: int) -> tuple[int, int]:
    """A zigzag varint that is not negative, and the place after it."""
    value = shift = 0
    while shift < 35:
        if place >= len(frame):
            raise ValueError("the frame ends in the indexes of its message")
        byte = frame[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1, place
    raise ValueError("an index of the message has too many bytes")
