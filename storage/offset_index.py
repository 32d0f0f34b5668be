"""The sparse offset index of one segment: `.index`.

    bytes  field                            type, big-endian
    0      last offset of a batch - base    int32, rising
    4      position where the batch starts  int32, rising, never 0

A file that was not closed in order may go on with zeros (it was made at its full size), which no
entry is: the first batch of a segment has none.  One entry in about index.interval.bytes.

The entries stay as they lie in the file: nothing is decoded when it is loaded, a lookup reads some
18 of them (2 us at 262,144 entries).

Source: Kafka's OffsetIndex.
"""

from __future__ import annotations

from array import array
from struct import Struct
from sys import byteorder
from typing import Final

from runtime.files import Bytes
from storage.index_file import CorruptIndex

ENTRY_BYTES: Final = 8
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_ENTRY: Final = Struct(">ii")
_INT32: Final = Struct(">i")
_read_int32 = _INT32.unpack_from


class OffsetIndex:
    """Pairs of (last offset of a batch, its position), both rising."""

    __slots__ = ("base_offset", "data")

    base_offset: int
    data: bytearray
    """The entries as they lie in the file."""

    def __init__(self, base_offset: int, data: Bytes = b"") -> None:
        self.base_offset = base_offset
        self.data = bytearray(data)

    def __len__(self) -> int:
        return len(self.data) // ENTRY_BYTES

    @classmethod
    def decode(cls, data: bytes, base_offset: int, *, log_bytes: int) -> OffsetIndex:
        """The index in a file's bytes, without the zeros of one that was not closed in order.

        log_bytes  size of the .log file
        raises     CorruptIndex: cut within an entry, entries that do not rise or lead beyond the
                   .log file
        """
        if len(data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        used = _without_zeros(data)
        numbers = array("i", data[:used])
        if byteorder == "little":
            numbers.byteswap()
        offsets, positions = numbers[0::2], numbers[1::2]
        if not (_is_rising(offsets) and _is_rising(positions)):
            raise CorruptIndex("entries do not rise")
        if positions and (positions[0] <= 0 or positions[-1] >= log_bytes or offsets[0] < 0):
            raise CorruptIndex(f"entries lead beyond the {log_bytes} bytes of the segment")
        return cls(base_offset, memoryview(data)[:used])

    def entry(self, number: int) -> tuple[int, int]:
        """(last offset, position) of one entry."""
        relative, position = _ENTRY.unpack_from(self.data, number * ENTRY_BYTES)
        return self.base_offset + relative, position

    def last(self) -> tuple[int, int] | None:
        """The newest entry."""
        return self.entry(len(self) - 1) if self.data else None

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry for a batch behind all others."""
        relative = last_offset - self.base_offset
        assert 0 <= relative <= RELATIVE_OFFSET_MAX, "the offset does not fit into this segment"
        self.data += _ENTRY.pack(relative, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry whose offset is <= `offset`; (base offset, 0) when there is none."""
        found = self._count_below(offset - self.base_offset + 1)
        return self.entry(found - 1) if found else (self.base_offset, 0)

    def truncate(self, end_offset: int) -> None:
        """Drop the entries of batches that end at or behind `end_offset`."""
        del self.data[self._count_below(end_offset - self.base_offset) * ENTRY_BYTES :]

    def _count_below(self, relative: int) -> int:
        data = self.data
        low, high = 0, len(data) // ENTRY_BYTES
        while low < high:
            middle = (low + high) >> 1
            if _read_int32(data, middle * ENTRY_BYTES)[0] < relative:
                low = middle + 1
            else:
                high = middle
        return low


def _without_zeros(data: bytes) -> int:
    """Bytes before the zeros at the end: positions are never 0 and zeros come last."""
    low, high = 0, len(data) // ENTRY_BYTES
    while low < high:
        middle = (low + high) >> 1
        if _read_int32(data, middle * ENTRY_BYTES + 4)[0]:
            low = middle + 1
        else:
            high = middle
    if any(data[low * ENTRY_BYTES :]):
        raise CorruptIndex("an entry lies behind zeros")
    return low * ENTRY_BYTES


def _is_rising(numbers: array[int]) -> bool:
    given = numbers.tolist()
    return sorted(set(given)) == given
