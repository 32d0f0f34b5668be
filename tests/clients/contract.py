"""The interface of the client libraries in these tests, in whatever language."""

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
    """Start at an offset."""
    return f"offset:{offset}"


def at_time(timestamp_ms: int) -> str:
    """Start at the first record at or after a time."""
    return f"time:{timestamp_ms}"


@dataclass(frozen=True, slots=True)
class Message:
    """A record; `offset` is -1 while it is unknown."""

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
    """The features of a library: tests use exactly these."""

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
        """The features that both libraries have."""
        return Abilities(
            codecs=tuple(codec for codec in self.codecs if codec in other.codecs),
            null_values=self.null_values and other.null_values,
            null_headers=self.null_headers and other.null_headers,
            keeps_empty=self.keeps_empty and other.keeps_empty,
        )


def transacted(transactional_id: str, count: int, *, is_commit: bool) -> list[bytes]:
    """The values that `Client.transact` writes."""
    outcome = "commit" if is_commit else "abort"
    return [f"{transactional_id}-{outcome}-{number}".encode() for number in range(count)]


class Reader(Protocol):
    """Reads one partition from a start position."""

    position: int
    """The offset of the start; known before the first record is read."""

    def messages(self) -> list[Message]:
        """The requested records; waits for those that do not exist yet."""


class Client(Protocol):
    """A client library."""

    name: str
    abilities: Abilities

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic; returns after the broker's response."""

    def produce(self, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        """Write records; returns their offsets in order, -1 where they are not reported."""

    def transact(self, transactional_id: str, topic: str, count: int, *, is_commit: bool) -> None:
        """Write the values of `transacted` to partition 0 in a transaction of a new producer."""

    def read(self, topic: str, partition: int, start: str, count: int) -> Reader:
        """Look up the start position; `Reader.messages` returns the records."""

    def close(self) -> None:
        """End all processes and connections."""
