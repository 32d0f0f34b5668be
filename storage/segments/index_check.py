"""Compares the entries of a segment's indexes with its batches, noted one after the other.

What an entry says is at the top of `indexes/offset_index` and `indexes/time_index`.  At most one
flaw is found in each index: one is enough to rebuild it.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.protocol.records.batch import MAGIC
from odradek.storage.files.batch_scan import FoundBatch
from odradek.storage.indexes.offset_index import OffsetIndex
from odradek.storage.indexes.time_index import NO_TIMESTAMP, TimeIndex


class OffsetIndexCheck:
    """An entry leads to the start of a batch, and its offset is the last one of that or a later
    batch: an Apache follower makes one entry for all batches of a fetch."""

    def __init__(self, index: OffsetIndex) -> None:
        self.flaw: str | None = None
        self._entries: Iterator[tuple[int, int]] = map(index.entry, range(len(index)))
        self._entry = next(self._entries, None)
        self._is_at_position = False

    def note(self, batch: FoundBatch) -> None:
        """The next batch; raises CorruptIndex, OSError."""
        while self._entry is not None:
            offset, position = self._entry
            if not self._is_at_position:
                if batch.position < position:
                    return
                if batch.position > position:
                    self._fail(
                        f"an entry for offset {offset} leads to position {position}, "
                        "where no batch begins"
                    )
                    return
                self._is_at_position = True
            if batch.last_offset < offset:
                return
            if batch.last_offset > offset:
                self._fail(f"an entry names offset {offset}, where no batch ends")
                return
            self._entry = next(self._entries, None)
            self._is_at_position = False

    def finish(self) -> str | None:
        """All batches were noted; returns the flaw, None when there is none."""
        if self._entry is not None:
            self._fail(f"an entry for offset {self._entry[0]} is after the last batch")
        return self.flaw

    def _fail(self, flaw: str) -> None:
        self.flaw = flaw
        self._entry = None


class TimeIndexCheck:
    """An entry names an offset of a batch with this greatest timestamp, and no earlier batch is
    younger; the last one has the segment's greatest timestamp when the index is complete."""

    def __init__(self, index: TimeIndex) -> None:
        self.flaw: str | None = None
        self._index = index
        self._entries: Iterator[tuple[int, int]] = map(index.entry, range(len(index)))
        self._entry = next(self._entries, None)
        self._greatest_ms = NO_TIMESTAMP
        self._has_old_format = False

    def note(self, batch: FoundBatch) -> None:
        """The next batch; raises CorruptIndex, OSError."""
        # The times of old formats are not in their headers.
        self._has_old_format |= batch.magic != MAGIC
        while self._entry is not None and self._entry[1] <= batch.last_offset:
            timestamp_ms, offset = self._entry
            is_right = (
                offset >= batch.base_offset
                and batch.max_timestamp_ms == timestamp_ms >= self._greatest_ms
            )
            if not is_right and not self._has_old_format:
                self._fail(
                    f"an entry names timestamp {timestamp_ms} for offset {offset}, where it is not "
                    "the youngest so far"
                )
                break
            self._entry = next(self._entries, None)
        self._greatest_ms = max(self._greatest_ms, batch.max_timestamp_ms)

    def finish(self, *, is_complete: bool) -> str | None:
        """All batches were noted; returns the flaw, None when there is none.

        is_complete  the segment was closed after its last batch
        """
        if self.flaw is None and self._entry is not None:
            self._fail(f"an entry for offset {self._entry[1]} is after the last batch")
        newest_ms = self._index.newest[0]
        if (
            self.flaw is None
            and is_complete
            and not self._has_old_format
            and newest_ms != self._greatest_ms
        ):
            self._fail(
                f"the last entry has timestamp {newest_ms}, the youngest batch {self._greatest_ms}"
            )
        return self.flaw

    def _fail(self, flaw: str) -> None:
        self.flaw = flaw
        self._entry = None
