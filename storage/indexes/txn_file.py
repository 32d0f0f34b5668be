"""The transaction index of a segment, in its file; there is none while it is empty.

As of the other indexes, only what waits to be written is in memory, however many transactions were
aborted.  What is read is checked.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Final

from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.descriptors import Descriptors, Handle
from odradek.storage.indexes.index_file import CorruptIndex, IndexFile
from odradek.storage.indexes.txn_index import (
    ENTRY,
    AbortedTransaction,
    encode_entries,
    iterate_entries,
)

_MARKER_AT: Final = 18
_read_marker: Final = Struct(">q").unpack_from


class TxnFile:
    """The aborted transactions of a segment, by the offset of the marker.

    Any method may raise OSError, and CorruptBatch when the file is not an index of the segment.
    """

    __slots__ = ("_base_offset", "_files", "_handle", "_index", "_last_offset")

    def __init__(self, shared: Descriptors, path: str, base_offset: int) -> None:
        """Nothing is read yet."""
        self._files = shared.files
        self._handle = Handle(shared, path)
        self._index = IndexFile(ENTRY, self._handle)
        self._base_offset = base_offset
        self._last_offset = base_offset - 1
        """Last offset of the last entry."""

    def load(self) -> None:
        """Count the entries and check the last one, unless that is done."""
        index = self._index
        if index.is_loaded:
            return
        try:
            file = self._handle.use()
        except FileNotFoundError:
            self.reset()
            return
        with self._checked():
            try:
                index.load()
                if file.size() != len(index) * ENTRY.size:
                    # Those of other indexes are unused space; here they are lost entries.
                    raise CorruptIndex("it ends with zeros")
                self._note_last()
            except (CorruptIndex, OSError):
                index.close()
                raise

    def _note_last(self) -> None:
        self._last_offset = self._base_offset - 1
        for _, _, last, _ in iterate_entries(
            self._index.page(max(len(self._index) - 1, 0)), self._last_offset
        ):
            self._last_offset = last

    def check(self) -> None:
        """Check all entries; 0.2 us each."""
        self.load()
        with self._checked():
            for _ in self._entries(0):
                pass

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except CorruptIndex as error:
            raise CorruptBatch(f"{self._handle.path}: {error}") from None

    # Reading.

    def __len__(self) -> int:
        return len(self._index)

    def from_marker(self, offset: int) -> Iterator[AbortedTransaction]:
        """The transactions whose marker is at or after an offset."""
        return (AbortedTransaction(*fields) for fields in self._from_marker(offset))

    def _from_marker(self, offset: int) -> Iterator[tuple[int, int, int, int]]:
        """Their fields; only what is returned is checked."""
        self.load()
        if offset > self._last_offset:
            return
        with self._checked():
            yield from self._entries(self._index.count_below(_read_marker, _MARKER_AT, offset))

    def _entries(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """The fields of the entries from one on, checked; raises CorruptIndex, OSError."""
        former = self._base_offset - 1
        while page := self._index.page(number):
            for fields in iterate_entries(page, former):
                yield fields
            former = fields[2]
            number += len(page) // ENTRY.size

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[list[tuple[int, int]], bool]:
        """([(producer id, first offset)] of those overlapping [start, end), whether that is all).

        It is all when an entry was written while everything before `end_offset` was stable: later
        entries, also those of later segments, begin after it.
        """
        transactions: list[tuple[int, int]] = []
        for producer_id, first, _, stable in self._from_marker(start_offset):
            if first < end_offset:
                transactions.append((producer_id, first))
            if stable >= end_offset:
                return transactions, True
        return transactions, False

    # Changes.

    def append(self, entry: AbortedTransaction) -> None:
        """Add the transaction that was aborted last, in memory."""
        self.load()
        assert entry.last_offset > self._last_offset, "markers are appended in order"
        self._index.append_entries(encode_entries((entry,)))
        self._last_offset = entry.last_offset

    def truncate(self, end_offset: int) -> None:
        """Drop the transactions whose marker is at or after `end_offset`, in the file too."""
        self.load()
        with self._checked():
            count = self._index.count_below(_read_marker, _MARKER_AT, end_offset)
            self._index.truncate(self._files, count)
            self._note_last()
        self.write()

    def reset(self) -> None:
        """Empty, whatever the file holds."""
        self._index.reset()
        self._last_offset = self._base_offset - 1

    def write(self) -> None:
        """Bring the file up to what is in memory, not synced; raises OSError only."""
        if not self._index.is_loaded:
            return
        if len(self._index):
            try:
                self._index.write(self._files)
            except CorruptIndex as error:
                # Only a start can rebuild what it has lost.
                raise OSError(errno.EIO, str(error)) from error
        elif self._files.exists(self._handle.path):
            self._files.remove(self._handle.path)
            self._handle.close()

    def replace(self) -> bool:
        """Write it whole and sync it, after `reset`; returns whether the file has changed."""
        if len(self._index):
            return self._index.replace(self._files)
        was_there = self._files.exists(self._handle.path)
        self.write()
        return was_there

    def close(self) -> None:
        """Close the file."""
        self._index.close()
