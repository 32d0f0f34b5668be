"""Writes the segment that replaces a group: files with the suffix `.cleaned`.

Source: Kafka's LocalLog.createNewCleanedSegment, LogSegment.append, Cleaner.cleanSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from odradek.runtime.files import Bytes, File, FileSystem
from odradek.storage.compaction.job import CleaningJob
from odradek.storage.files import names
from odradek.storage.indexes.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from odradek.storage.indexes.offset_index import OffsetIndex
from odradek.storage.indexes.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from odradek.storage.indexes.time_index import NO_TIMESTAMP, TimeIndex
from odradek.storage.indexes.txn_index import AbortedTransaction, encode_entries

WRITE_BYTES: Final = 1 << 20
SYNC_BYTES: Final = 16 << 20
"""Handed to the disk at once: one large sync would hold up the writes of the broker."""


class CleanedSegment:
    """Batches are added in order, then `finish` completes the files and syncs them."""

    def __init__(
        self,
        files: FileSystem,
        job: CleaningJob,
        base_offset: int,
        on_written: Callable[[int], None],
    ) -> None:
        """`on_written` is called with the size of each write; it may sleep.  raises  OSError"""
        self._files = files
        self._job = job
        self._base_offset = base_offset
        self._on_written = on_written
        self._file: File = files.open(self._path(names.LOG), create=True)
        self._waiting: list[Bytes] = []
        self._waiting_bytes = 0
        self._unsynced_bytes = 0
        self._offset_index = OffsetIndex(base_offset)
        self._time_index = TimeIndex(base_offset)
        self._bytes_since_index = 0
        self._max_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        # One place is left for the greatest timestamp, which is noted at the end.
        self._entries_left = min(
            job.segment_index_bytes // OFFSET_ENTRY_BYTES,
            job.segment_index_bytes // TIME_ENTRY_BYTES - 1,
        )
        self.size = 0
        """Bytes of all batches added."""

    def _path(self, suffix: str) -> str:
        name = names.file_name(self._base_offset, suffix)
        return f"{self._job.directory}/{name}{names.CLEANED}"

    def add(self, data: Bytes, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch; its memory must not change any more.  raises  OSError"""
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        if self._bytes_since_index > self._job.index_interval_bytes and self._entries_left > 0:
            self._offset_index.append(last_offset, self.size)
            self._time_index.append_if_younger(self._max_timestamp_ms, self._max_timestamp_offset)
            self._entries_left -= 1
            self._bytes_since_index = 0
        size = len(data)
        self._bytes_since_index += size
        self.size += size
        self._waiting.append(data)
        self._waiting_bytes += size
        if self._waiting_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if not self._waiting:
            return
        size = self._file.append((b"".join(self._waiting),))
        self._waiting.clear()
        self._waiting_bytes = 0
        self._unsynced_bytes += size
        if self._unsynced_bytes >= SYNC_BYTES:
            self._file.sync()
            self._unsynced_bytes = 0
        self._on_written(size)

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ms: int) -> None:
        """Complete the files; the folder is not synced.

        modified_ms  the time of change that they get: retention counts from it where no record has
                     a timestamp
        raises       OSError
        """
        self._write()
        self._file.sync()
        self._time_index.append_if_younger(self._max_timestamp_ms, self._max_timestamp_offset)
        self._write_index(names.OFFSET_INDEX, self._offset_index.pending)
        self._write_index(names.TIME_INDEX, self._time_index.pending)
        if aborted:
            self._write_index(names.TXN_INDEX, encode_entries(aborted))
        for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
            self._files.set_modified_ms(self._path(suffix), modified_ms)

    def _write_index(self, suffix: str, data: Bytes) -> None:
        with closing(self._files.open(self._path(suffix), create=True)) as file:
            if data:
                file.append((data,))
            file.sync()

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._file.close()
