"""The records that tests send: every kind of key, value and header."""

from __future__ import annotations

import time
from dataclasses import replace

from tests.clients.contract import Abilities, Message

BASE_MS = (int(time.time()) - 3600) * 1000
"""An hour ago, since retention would delete old records during the tests."""

STEP_MS = 1_000

PLAIN_HEADERS: tuple[tuple[str, bytes | None], ...] = (("trace", b"abc"), ("kind", b"order"))


def build_messages(abilities: Abilities, partition: int, *, first: int = 0) -> list[Message]:
    """Nine records of one partition, `STEP_MS` apart; their numbers start at `first`."""
    nothing = None if abilities.null_headers else b"some"
    empty = b"" if abilities.keeps_empty else b"other"
    bodies: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", ()),
        (b"key", b"with headers", PLAIN_HEADERS),
        (b"key-2", b"with headers", PLAIN_HEADERS),
        ("schlüssel".encode(), "wert ☃".encode(), ()),
        (b"zeros", b"0" * 5_000, ()),
        (b"k" * 300, bytes(range(3, 256)) * 20, ()),
    ]
    if abilities.null_values:
        bodies += [
            (None, b"no key", (("nothing", nothing), ("empty", empty))),
            (b"tombstone", None, ()),
            (empty, empty, ()),
        ]
    else:
        bodies += [(b"a", b"b", ()), (b"c", b"d", ()), (b"e", b"f", ())]
    return [
        Message(partition, BASE_MS + (first + number) * STEP_MS, key, value, headers)
        for number, (key, value, headers) in enumerate(bodies)
    ]


def expect(sent: list[Message], got: list[Message], *, first_offset: int, timed: bool) -> None:
    """Check that `got` equals `sent`, with consecutive offsets from `first_offset`.

    timed  whether the sender has set the timestamps
    """
    expected = [
        replace(message, offset=first_offset + number) for number, message in enumerate(sent)
    ]
    if not timed:
        expected = [
            replace(message, timestamp_ms=other.timestamp_ms)
            for message, other in zip(expected, got, strict=True)
        ]
    assert got == expected
