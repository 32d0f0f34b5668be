"""The sparse offset index of one segment: `.index`.

    bytes  field                            type, big-endian
    0      last offset of a batch - base    int32, rising
    4      position where the batch starts  int32, rising, never 0

One entry in about index.interval.bytes.  No entry is all zeros: the first batch of a segment has
none.  A follower of Apache Kafka's makes one entry for all batches of a fetch: the last offset of
the last one, the position of the first.

Source: Kafka's OffsetIndex.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from odradek.storage.files.descriptors import Handle
from odradek.storage.indexes.index_file import CorruptIndex, IndexFile

ENTRY_BYTES: Final = 8
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_ENTRY: Final = Struct(">ii")
_POSITION_AT: Final = 4
_read_int32 = Struct(">i").unpack_from


class OffsetIndex(IndexFile):
    """Pairs of (last offset of a batch, its position), both rising."""

    __slots__ = ("base_offset",)

    base_offset: int

    def __init__(self, base_offset: int, handle: Handle | None = None) -> None:
        super().__init__(_ENTRY, handle)
        self.base_offset = base_offset

    def check(self, log_bytes: int) -> None:
        """Check the newest entry against the size of the .log file.

        raises  CorruptIndex, OSError
        """
        if self.stored_count == 1 and self.fields(0) == (0, 0):
            self.stored_count = 0
            self._is_exact = False
        if not len(self):
            return
        relative, position = self.fields(len(self) - 1)
        if relative < 0 or not 0 < position < log_bytes:
            raise CorruptIndex(
                f"the last entry leads to position {position} of {log_bytes}, offset {relative}"
            )

    def entry(self, number: int) -> tuple[int, int]:
        """(last offset, position) of one entry; raises CorruptIndex, OSError."""
        relative, position = self.fields(number)
        return self.base_offset + relative, position

    def last(self) -> tuple[int, int] | None:
        """The newest entry; raises CorruptIndex, OSError."""
        count = len(self)
        return self.entry(count - 1) if count else None

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry for a batch after all others."""
        relative = last_offset - self.base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX, "the offset does not fit into this segment"
        self.pending += _ENTRY.pack(relative, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry whose offset is <= `offset`; (base offset, 0) when there is none.

        raises  CorruptIndex, OSError
        """
        count = self.count_below(_read_int32, 0, offset - self.base_offset + 1)
        return self.entry(count - 1) if count else (self.base_offset, 0)

    def count_before(self, end_offset: int) -> int:
        """How many entries have an offset below `end_offset`; raises CorruptIndex, OSError."""
        return self.count_below(_read_int32, 0, end_offset - self.base_offset)

    def first_after(self, position: int) -> int | None:
        """The offset of the first entry at or after a position, None without one.

        raises  CorruptIndex, OSError
        """
        number = self.count_below(_read_int32, _POSITION_AT, position)
        return self.entry(number)[0] if number < len(self) else None
