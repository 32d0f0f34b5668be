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
from dataclasses import dataclass
from typing import Final, Self

VERSION: Final = 0
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class FormatError(ValueError):
    """A record of one of these topics cannot be decoded."""


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _SHORT.pack(len(encoded)) + encoded


class _Reader:
    """Reads values from the start of a record."""

    def __init__(self, content: bytes | None) -> None:
        if content is None:
            raise FormatError("no key or no value")
        self._left = content

    def number(self, layout: struct.Struct) -> int:
        """The next number."""
        if len(self._left) < layout.size:
            raise FormatError(f"{layout.size - len(self._left)} bytes are missing")
        (value,) = layout.unpack_from(self._left)
        self._left = self._left[layout.size :]
        return int(value)

    def text(self) -> str:
        """The next string."""
        length = self.number(_SHORT)
        if not 0 <= length <= len(self._left):
            raise FormatError(f"a string of {length} bytes where {len(self._left)} are left")
        raw, self._left = self._left[:length], self._left[length:]
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"a string that is not UTF-8: {error}") from error

    def version(self) -> None:
        """Read the version and check that it is the only known one."""
        version = self.number(_SHORT)
        if version != VERSION:
            raise FormatError(f"version {version}; known: {VERSION}")


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Offsets of one record on both sides.

    topic, partition  of the source
    """

    topic: str
    partition: int
    source_offset: int
    target_offset: int

    def key(self) -> bytes:
        """The record key, by which the topic is compacted."""
        return _text(self.topic) + _INT.pack(self.partition)

    def value(self) -> bytes:
        """The record value: both offsets."""
        return _LONG.pack(self.source_offset) + _LONG.pack(self.target_offset)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        """Decode a record.

        raises  FormatError
        """
        keys, values = _Reader(key), _Reader(value)
        topic, partition = keys.text(), keys.number(_INT)
        return cls(topic, partition, values.number(_LONG), values.number(_LONG))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The offset at which a group of the source continues on the target.

    topic, partition  of the target
    """

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        """The record key, by which the topic is compacted."""
        return _text(self.group) + _text(self.topic) + _INT.pack(self.partition)

    def value(self) -> bytes:
        """The record value: version, both offsets, and the metadata of the committed offset."""
        offsets = _LONG.pack(self.source_offset) + _LONG.pack(self.target_offset)
        return _SHORT.pack(VERSION) + offsets + _text(self.metadata)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        """Decode a record.

        raises  FormatError
        """
        keys, values = _Reader(key), _Reader(value)
        group, topic, partition = keys.text(), keys.text(), keys.number(_INT)
        values.version()
        source_offset, target_offset = values.number(_LONG), values.number(_LONG)
        return cls(group, topic, partition, source_offset, target_offset, values.text())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A mirror between two clusters was running at `time_ms` (since 1970)."""

    source: str
    target: str
    time_ms: int

    def key(self) -> bytes:
        """The record key, by which the topic is compacted."""
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        """The record value: version and time."""
        return _SHORT.pack(VERSION) + _LONG.pack(self.time_ms)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        """Decode a record.

        raises  FormatError
        """
        keys, values = _Reader(key), _Reader(value)
        source, target = keys.text(), keys.text()
        values.version()
        return cls(source, target, values.number(_LONG))
