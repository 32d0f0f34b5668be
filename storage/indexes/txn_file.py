"""The transaction index of a segment, in its file; there is none while it is empty.

As of the other indexes, only what waits to be written is in memory, however many transactions were
aborted.  What is read is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Final

from odradek.runtime.files import Bytes
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.descriptors import Descriptors, Handle
from odradek.storage.indexes.index_file import CorruptIndex, IndexFile
from odradek.storage.indexes.txn_index import (
    ENTRY,
    AbortedTransaction,
    check_entries,
    encode_entries,
)

_MARKER_AT: Final = 18
_read_marker: Final = Struct(">q").unpack_from


class TxnFile:
    """The aborted transactions of a segment, by the offset of the marker.

    Any method may raise OSError, and CorruptBatch when the file is no index of the segment.
    """

    __slots__ = ("_base_offset", "_files", "_handle", "_index", "_last_offset")

    def __init__(self, shared: Descriptors, path: str, base_offset: int) -> None:
        """Nothing is read yet."""
        self._files = shared.files
        self._handle = Handle(shared, path)
        self._index = IndexFile(ENTRY, self._handle)
        self._base_offset = base_offset
        self._last_offset = base_offset - 1
        """Of the last entry."""

    def load(self) -> None:
        """Count the entries and check the last one, unless that is done."""
        index = self._index
        if index.is_loaded:
            return
        try:
            self._handle.use()
        except FileNotFoundError:
            self.reset()
            return
        with self._checked():
            try:
                index.load()
                self._note_last()
            except (CorruptIndex, OSError):
                index.close()
                raise

    def _note_last(self) -> None:
        last = self._index.page(max(len(self._index) - 1, 0))
        self._last_offset = check_entries(last, self._base_offset - 1)

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
        for page in self._pages(offset):
            for _, *fields in ENTRY.iter_unpack(page):
                yield AbortedTransaction(*fields)

    def _pages(self, offset: int) -> Iterator[Bytes]:
        """The entries whose marker is at or after an offset, page by page, checked."""
        self.load()
        with self._checked():
            number = self._index.count_below(_read_marker, _MARKER_AT, offset)
            former = self._base_offset - 1
            while page := self._index.page(number):
                former = check_entries(page, former)
                yield page
                number += len(page) // ENTRY.size

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[list[tuple[int, int]], bool]:
        """([(producer id, first offset)] of those overlapping [start, end), whether that is all).

        It is all when an entry was written while everything before `end_offset` was stable: later
        entries, also those of later segments, begin after it.
        """
        found: list[tuple[int, int]] = []
        for page in self._pages(start_offset):
            for _, producer_id, first, _, stable in ENTRY.iter_unpack(page):
                if first < end_offset:
                    found.append((producer_id, first))
                if stable >= end_offset:
                    return found, True
        return found, False

    # Changes.

    def append(self, entry: AbortedTransaction) -> None:
        """Add the transaction that was aborted last, in memory."""
        self.load()
        assert entry.last_offset > self._last_offset, "markers are appended in order"
        self._index.pending += encode_entries((entry,))
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
        """Bring the file up to what is in memory, not synced."""
        if not self._index.is_loaded:
            return
        if len(self._index):
            with self._checked():
                self._index.write(self._files)
        elif self._files.exists(self._handle.path):
            self._files.remove(self._handle.path)
            self._handle.close()

    def replace(self) -> None:
        """Write it whole and sync it, after `reset`."""
        if len(self._index):
            self._index.replace(self._files)
        else:
            self.write()

    def close(self) -> None:
        """Close the file."""
        self._index.close()
