"""Indexes of closed segments that are in memory, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol


class IndexOwner(Protocol):
    """A segment."""

    def forget_indexes(self) -> None:
        """Drop the indexes; they are read from their files when needed again."""


class IndexCache:
    """Counts the bytes of loaded indexes and makes their owners forget them.

    The newest stay even if they alone are larger than the bound.
    """

    __slots__ = ("_loaded", "bytes_max", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._loaded: OrderedDict[IndexOwner, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._loaded)

    def note_loaded(self, owner: IndexOwner, size_bytes: int) -> None:
        """The indexes were read from their files, or their segment has just been closed."""
        self.forget(owner)
        self._loaded[owner] = size_bytes
        self.size_bytes += size_bytes
        while self.size_bytes > self.bytes_max and len(self._loaded) > 1:
            oldest, oldest_bytes = self._loaded.popitem(last=False)
            self.size_bytes -= oldest_bytes
            oldest.forget_indexes()

    def note_used(self, owner: IndexOwner) -> None:
        """The indexes were looked up."""
        if owner in self._loaded:
            self._loaded.move_to_end(owner)

    def forget(self, owner: IndexOwner) -> None:
        """The segment is gone, or appended to again; nothing happens when it is unknown."""
        self.size_bytes -= self._loaded.pop(owner, 0)
