"""The sparse time index of one segment: `.timeindex`.

    bytes  field                      type, big-endian
    0      timestamp                  int64, milliseconds, rising
    8      offset - base              int32, rising

An entry says: up to the entry of the offset index that was made with it, no batch is younger than
this timestamp, and the first batch that is as young ends at this offset.  The last one is made when
the segment or the log is closed and holds the segment's greatest timestamp.

Only the first entry can be all zeros; alone before zeros it is taken for one of them, and the
segment's greatest timestamp counts as unknown.

Source: Kafka's TimeIndex.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from odradek.storage.files.descriptors import Handle
from odradek.storage.indexes.index_file import CorruptIndex, IndexFile

ENTRY_BYTES: Final = 12
NO_TIMESTAMP: Final = -1

_ENTRY: Final = Struct(">qi")
_read_timestamp = Struct(">q").unpack_from
_read_offset = Struct(">i").unpack_from
_OFFSET_AT: Final = 8


class TimeIndex(IndexFile):
    """Pairs of (timestamp in ms, last offset of a batch), both rising."""

    __slots__ = ("base_offset", "newest")

    base_offset: int
    newest: tuple[int, int]
    """The last entry, once loaded; (-1, base offset) when there is none."""

    def __init__(self, base_offset: int, handle: Handle | None = None) -> None:
        super().__init__(_ENTRY, handle)
        self.base_offset = base_offset
        self.newest = (NO_TIMESTAMP, base_offset)

    def reset(self) -> None:
        """Empty the index (`IndexFile.reset`)."""
        super().reset()
        self.newest = (NO_TIMESTAMP, self.base_offset)

    def take(self, built: IndexFile) -> None:
        """Take over the entries of another index (`IndexFile.take`)."""
        assert isinstance(built, TimeIndex), "an index of another kind"
        super().take(built)
        self.newest = built.newest

    def check(self) -> None:
        """Check the last entry against the first, and remember it; raises CorruptIndex, OSError."""
        self.note_newest()
        timestamp_ms, offset = self.newest
        if len(self) and (timestamp_ms < max(0, self.entry(0)[0]) or offset < self.base_offset):
            raise CorruptIndex(f"the last entry has timestamp {timestamp_ms}, offset {offset}")

    def note_newest(self) -> None:
        """Read the last entry after a change of the file; raises CorruptIndex, OSError."""
        count = len(self)
        self.newest = self.entry(count - 1) if count else (NO_TIMESTAMP, self.base_offset)

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp in ms, offset) of one entry; raises CorruptIndex, OSError."""
        timestamp_ms, relative = self.fields(number)
        return timestamp_ms, self.base_offset + relative

    def append_if_younger(self, timestamp_ms: int, offset: int) -> bool:
        """Add an entry unless the last one is as young; returns whether it was added."""
        if timestamp_ms <= self.newest[0]:
            return False
        self.pending += _ENTRY.pack(timestamp_ms, offset - self.base_offset)
        self.newest = (timestamp_ms, offset)
        return True

    def first_at_or_after(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The first entry that is no older, None without one; raises CorruptIndex, OSError."""
        number = self.count_below(_read_timestamp, 0, timestamp_ms)
        return self.entry(number) if number < len(self) else None

    def count_before(self, end_offset: int) -> int:
        """How many entries have an offset below `end_offset`; raises CorruptIndex, OSError."""
        return self.count_below(_read_offset, _OFFSET_AT, end_offset - self.base_offset)
