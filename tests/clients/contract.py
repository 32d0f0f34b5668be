"""What every client library of these tests can do, whatever language it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NO_ZSTD = CODECS[:4]
EARLIEST = "earliest"
LATEST = "latest"
WAIT_S = 90.0


def at_offset(offset: int) -> str:
    """Start reading at a record number."""
    return f"offset:{offset}"


def at_time(timestamp_ms: int) -> str:
    """Start reading at the first record whose timestamp is not earlier."""
    return f"time:{timestamp_ms}"


@dataclass(frozen=True, slots=True)
class Message:
    """A record as a program sees it; `offset` is -1 before it is known."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


@dataclass(frozen=True, slots=True)
class How:
    """The settings of a producer."""

    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a library cannot do is not asked of it; what it can do, it must."""

    codecs: tuple[str, ...] = CODECS
    idempotent: bool = True
    transactional: bool = True
    creates_topics: bool = True
    chooses_timestamps: bool = True
    tells_offsets: bool = True
    null_values: bool = True
    """Keys and values may be null."""
    null_headers: bool = True
    """The value of a header may be null."""
    keeps_empty: bool = True
    """An empty key, value or header stays empty and does not become null."""

    def and_those_of(self, other: Abilities) -> Abilities:
        """What can be sent by one library and read by another."""
        return Abilities(
            codecs=tuple(codec for codec in self.codecs if codec in other.codecs),
            null_values=self.null_values and other.null_values,
            null_headers=self.null_headers and other.null_headers,
            keeps_empty=self.keeps_empty and other.keeps_empty,
        )


class Reader(Protocol):
    """One partition, being read from a place."""

    position: int
    """The offset where it starts; known before any record comes."""

    def messages(self) -> list[Message]:
        """The records asked for; waits for those that do not exist yet."""


class Client(Protocol):
    """A client library."""

    name: str
    abilities: Abilities

    def create_topic(self, topic: str, partitions: int) -> None:
        """Returns once the broker said that it is made."""

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """Offsets in the order of the messages, -1 where the library is not told."""

    def begin_transactions(self, transactional_id: str) -> None:
        """Make ready for transactions; raises the library's error, or AssertionError."""

    def read(self, topic: str, partition: int, start: str, count: int) -> Reader:
        """Find the place to start; the records come from `Reader.messages`."""

    def close(self) -> None:
        """End whatever runs."""
