"""The records that a mirror publishes, in the formats of MirrorMaker 2.

All numbers are big-endian; a string is its length in two bytes and UTF-8.

    topic                              key                       value
    mm2-offset-syncs.ALIAS.internal    topic, partition (i32)    source offset, target offset (i64)
    ALIAS.checkpoints.internal         group, topic, partition   version 0 (i16), source offset,
                                                                 target offset, metadata
    heartbeats                         source, target alias      version 0, time (ms since 1970)

Source: org.apache.kafka.connect.mirror.{OffsetSync,Checkpoint,Heartbeat} of Kafka 3.9.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, Final, Self

VERSION: Final = 0
TEXT: Final = "s"
VERSION_CODE: Final = "v"
"""Codes of a layout, besides `i` and `q` of the module struct."""


class FormatError(ValueError):
    """A record of one of these topics cannot be decoded."""


def _encoded(layout: str, values: Iterator[Any]) -> bytes:
    """The next values by their codes."""
    parts = []
    for code in layout:
        if code == VERSION_CODE:
            parts.append(struct.pack(">h", VERSION))
        elif code == TEXT:
            text = next(values).encode()
            parts += [struct.pack(">h", len(text)), text]
        else:
            parts.append(struct.pack(f">{code}", next(values)))
    return b"".join(parts)


def _decoded(layout: str, content: bytes | None) -> Iterator[Any]:
    """Yield the values of a key or a record.

    raises  FormatError
    """
    if content is None:
        raise FormatError("no key or no value")
    for code in layout:
        number_code = "h" if code in (TEXT, VERSION_CODE) else code
        size = struct.calcsize(f">{number_code}")
        if len(content) < size:
            raise FormatError(f"{size - len(content)} bytes are missing")
        (number,) = struct.unpack_from(f">{number_code}", content)
        content = content[size:]
        if code == VERSION_CODE:
            if number != VERSION:
                raise FormatError(f"version {number}; known: {VERSION}")
        elif code == TEXT:
            if not 0 <= number <= len(content):
                raise FormatError(f"a string of {number} bytes where {len(content)} are left")
            raw, content = content[:number], content[number:]
            try:
                yield raw.decode()
            except UnicodeDecodeError as error:
                raise FormatError(f"a string that is not UTF-8: {error}") from error
        else:
            yield number


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """A record whose fields are those of its key, then those of its value.

    KEY, VALUE  a code for each: i, q a number of 4 or 8 bytes, s a string, v the version, which is
                not a field
    """

    KEY: ClassVar[str]
    VALUE: ClassVar[str]

    def key(self) -> bytes:
        """The record key, by which the topic is compacted."""
        return _encoded(self.KEY, iter(astuple(self)))

    def value(self) -> bytes:
        """The record value."""
        return _encoded(self.VALUE, iter(astuple(self)[len(self.KEY) :]))

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        """Decode a record.

        raises  FormatError
        """
        return cls(*_decoded(cls.KEY, key), *_decoded(cls.VALUE, value))


@dataclass(frozen=True, slots=True)
class OffsetSync(PublishedRecord):
    """Offsets of one record on both sides.

    topic, partition  of the source
    """

    KEY, VALUE = "si", "qq"

    topic: str
    partition: int
    source_offset: int
    target_offset: int


@dataclass(frozen=True, slots=True)
class Checkpoint(PublishedRecord):
    """The offset at which a group of the source continues on the target.

    topic, partition  of the target
    metadata          of the committed offset
    """

    KEY, VALUE = "ssi", "vqqs"

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat(PublishedRecord):
    """A mirror between two clusters was running at `time_ms` (since 1970)."""

    KEY, VALUE = "ss", "vq"

    source: str
    target: str
    time_ms: int
