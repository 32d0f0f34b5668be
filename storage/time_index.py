"""The sparse time index of one segment: `.timeindex`.

    bytes  field                      type, big-endian
    0      timestamp                  int64, milliseconds, rising
    8      offset - base              int32, rising

An entry says: up to the entry of the offset index that was made with it, no batch is younger than
this timestamp, and the first batch that is as young ends at this offset.  The last one is made when
the segment or the log is closed and holds the segment's greatest timestamp.  Zeros may follow, as
in the offset index.

Source: Kafka's TimeIndex.
"""

from __future__ import annotations

from array import array
from struct import Struct
from sys import byteorder
from typing import Final

from runtime.files import Bytes
from storage.index_file import CorruptIndex

ENTRY_BYTES: Final = 12
NO_TIMESTAMP: Final = -1

_ENTRY: Final = Struct(">qi")
_read_timestamp = Struct(">q").unpack_from
_read_offset = Struct(">i").unpack_from


class TimeIndex:
    """Pairs of (timestamp in ms, last offset of a batch), both rising."""

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
    def decode(cls, data: bytes, base_offset: int) -> TimeIndex:
        """The index in a file's bytes, without the zeros of one that was not closed in order.

        raises  CorruptIndex: cut within an entry, or entries that do not rise
        """
        if len(data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        used = _without_zeros(data)
        words = array("I", data[:used])
        if byteorder == "little":
            words.byteswap()
        timestamps = [high << 32 | low for high, low in zip(words[0::3], words[1::3], strict=True)]
        offsets = words[2::3].tolist()
        if sorted(set(timestamps)) != timestamps or sorted(offsets) != offsets:
            raise CorruptIndex("entries do not rise")
        if offsets and (offsets[-1] >= 1 << 31 or timestamps[-1] >= 1 << 63):
            raise CorruptIndex("an entry is negative")
        return cls(base_offset, memoryview(data)[:used])

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp in ms, offset) of one entry."""
        timestamp_ms, relative = _ENTRY.unpack_from(self.data, number * ENTRY_BYTES)
        return timestamp_ms, self.base_offset + relative

    def last(self) -> tuple[int, int]:
        """The newest entry; (-1, base offset) when there is none."""
        return self.entry(len(self) - 1) if self.data else (NO_TIMESTAMP, self.base_offset)

    def append_if_younger(self, timestamp_ms: int, offset: int) -> bool:
        """Add an entry unless the last one is as young; returns whether it was added."""
        if timestamp_ms <= self.last()[0]:
            return False
        self.data += _ENTRY.pack(timestamp_ms, offset - self.base_offset)
        return True

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry that is no younger; (-1, base offset) when there is none."""
        data = self.data
        low, high = 0, len(data) // ENTRY_BYTES
        while low < high:
            middle = (low + high) >> 1
            if _read_timestamp(data, middle * ENTRY_BYTES)[0] <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1) if low else (NO_TIMESTAMP, self.base_offset)

    def truncate(self, end_offset: int) -> None:
        """Drop the entries with an offset at or behind `end_offset`."""
        data = self.data
        relative = end_offset - self.base_offset
        low, high = 0, len(data) // ENTRY_BYTES
        while low < high:
            middle = (low + high) >> 1
            if _read_offset(data, middle * ENTRY_BYTES + 8)[0] < relative:
                low = middle + 1
            else:
                high = middle
        del data[low * ENTRY_BYTES :]


def _without_zeros(data: bytes) -> int:
    """Bytes before the zeros at the end.

    Only the first entry can have timestamp 0 and offset 0; alone before zeros it is taken for one
    of them, and the segment's greatest timestamp counts as unknown.
    """
    low, high = 0, len(data) // ENTRY_BYTES
    if high > 1 and not any(data[: 2 * ENTRY_BYTES]):
        high = 0
    while low < high:
        middle = (low + high) >> 1
        if middle == 0 or _read_timestamp(data, middle * ENTRY_BYTES)[0]:
            low = middle + 1
        else:
            high = middle
    if any(data[low * ENTRY_BYTES :]):
        raise CorruptIndex("an entry lies behind zeros")
    return low * ENTRY_BYTES
