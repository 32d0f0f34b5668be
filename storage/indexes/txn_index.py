"""The aborted transactions whose marker is in one segment: `.txnindex`.

    bytes  field               type, big-endian
    0      version, 0          int16
    2      producer id         int64
    10     first offset        int64     of the transaction
    18     last offset         int64     of its marker, rising
    26     last stable offset  int64     when the marker was written

There is no file while there is no entry.  Read_committed consumers get the entries that overlap
what they read and drop the batches named by them (KIP-98).

Source: Kafka's TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from odradek.storage.indexes.index_file import CorruptIndex

ENTRY_BYTES: Final = 34
VERSION: Final = 0

_ENTRY: Final = Struct(">hqqqq")
_MARKER_OFFSET: Final = itemgetter(2)


class AbortedTransaction(NamedTuple):
    """One entry."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    last_stable_offset: int


class TxnIndex:
    """The entries of one segment, by the offset of the marker."""

    __slots__ = ("entries",)

    entries: list[AbortedTransaction]

    def __init__(self, entries: list[AbortedTransaction] | None = None) -> None:
        self.entries = entries if entries is not None else []

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> TxnIndex:
        """The entries in a file's bytes.

        raises  CorruptIndex: cut within an entry, another version, markers before the segment's
                base or out of order
        """
        if len(data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        entries = []
        former = base_offset - 1
        for version, producer_id, first, last, stable in _ENTRY.iter_unpack(data):
            if version != VERSION:
                raise CorruptIndex(f"unknown version {version}, expected {VERSION}")
            if last <= former or first > last:
                raise CorruptIndex(f"a marker at {last} after one at {former}")
            former = last
            entries.append(AbortedTransaction(producer_id, first, last, stable))
        return cls(entries)

    def encode(self) -> bytes:
        """The bytes of the file."""
        return b"".join(_ENTRY.pack(VERSION, *entry) for entry in self.entries)

    def append(self, entry: AbortedTransaction) -> None:
        """Add the transaction that was aborted last."""
        former = self.entries[-1].last_offset if self.entries else -1
        assert entry.last_offset > former, "markers are appended in order"
        self.entries.append(entry)

    def truncate(self, end_offset: int) -> None:
        """Drop the transactions whose marker is at or after `end_offset`."""
        while self.entries and self.entries[-1].last_offset >= end_offset:
            self.entries.pop()

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[list[tuple[int, int]], bool]:
        """([(producer id, first offset)] of those overlapping [start, end), whether that is all).

        It is all when an entry was written while everything before `end_offset` was stable: later
        entries, also those of later segments, begin after it.
        """
        found = []
        first = bisect_left(self.entries, start_offset, key=_MARKER_OFFSET)
        for number in range(first, len(self.entries)):
            entry = self.entries[number]
            if entry.first_offset < end_offset:
                found.append((entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False
