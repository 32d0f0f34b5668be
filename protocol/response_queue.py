"""Responses leave a connection in the order of its requests."""

from __future__ import annotations

from collections import deque
from typing import Any


class ResponseSlot:
    """The place of one response among those of its connection."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Any] | None = None


class ResponseQueue:
    """Responses that wait for those to earlier requests, or are not made yet.

    A response is a list of parts: bytes, and slices of files.
    """

    __slots__ = ("held_bytes", "slots")

    def __init__(self) -> None:
        self.slots: deque[ResponseSlot] = deque()
        """The places of responses that have not left: each turn looks whether there are any."""
        self.held_bytes = 0
        """Bytes of responses that are made and wait for earlier ones."""

    def __len__(self) -> int:
        return len(self.slots)

    def reserve(self) -> ResponseSlot:
        """The place after those that are reserved already."""
        slot = ResponseSlot()
        self.slots.append(slot)
        return slot

    def fill(self, slot: ResponseSlot, parts: list[Any]) -> list[Any]:
        """Put a response in its place; returns the parts that may be sent now, in order."""
        slot.parts = parts
        self.held_bytes += sum(map(len, parts))
        slots = self.slots
        leaving: list[Any] = []
        while slots and (first := slots[0].parts) is not None:
            self.held_bytes -= sum(map(len, first))
            leaving.extend(first)
            slots.popleft()
        return leaving

    def clear(self) -> list[Any]:
        """Drop all places (the connection is closed); returns the parts that were not sent."""
        held = [part for slot in self.slots for part in slot.parts or ()]
        self.slots.clear()
        self.held_bytes = 0
        return held
