"""Cleans one log: of every key only the last record is kept.

    1  map      the last offset of every key in the dirty part, until the map is full
    2  groups   neighbouring segments that fit into one
    3  filter   every batch of every group from the log's start on; what stays goes to `.cleaned`
                files, which are synced

Nothing else in the folder is touched; `Log.replace_segments` puts the files into place.  Offsets
never change and their order neither, so what a reader has seen stays where it was, with gaps.

Records that have later ones of their keys go only when those are on disk: the segments of the dirty
part are synced, most of which has been done when they were closed.

When the map is full in the midst of a segment, the cleaning ends there and the next one goes on
from that offset; what follows stays as it is (but for aborted transactions).

Differs from Kafka: it does not sync what it has read, so a power cut may take the later record of a
key when the former one, which had been on disk, is already deleted.

Source: Kafka's Cleaner.doClean, buildOffsetMap, cleanSegments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import MAGIC, MAGIC_POSITION, RecordBatch
from odradek.protocol.records.legacy import decode_legacy_records
from odradek.protocol.records.record import records_part
from odradek.runtime.files import FileSystem, sync_file
from odradek.storage.compaction.batch_filter import BatchFilter, check_offsets
from odradek.storage.compaction.cleaned_segment import CleanedSegment
from odradek.storage.compaction.cleaned_transactions import CleanedTransactions
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.leftovers import remove_leftovers
from odradek.storage.compaction.offset_map import PLAIN_KEY_BYTES_MAX, OffsetMap, digest
from odradek.storage.compaction.record_scan import map_records
from odradek.storage.compaction.segment_groups import SourceSegment, group_segments
from odradek.storage.compaction.stored_batches import iterate_stored, read_aborted
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.segments.segments import CleanedGroup


def clean(
    files: FileSystem,
    job: CleaningJob,
    clock_ms: Callable[[], int],
    throttle: Callable[[int], None],
) -> CleaningResult:
    """Clean one log; when that fails, `leftovers.remove_leftovers` removes what was written.

    clock_ms  any clock, for the time that it took
    throttle  called with the bytes of each read and write; it may sleep
    returns   what to put into place; no groups when there was nothing to clean
    raises    OSError; CorruptBatch: the log is damaged and cannot be cleaned
    memory    `job.map_entries_max` entries of an `OffsetMap`, a byte for each dirty offset (64 MiB
              at most), some MiB, and one batch decompressed
    cost      1 us a record and 3 us a batch; 1 us a record more with millions of keys, which no
              processor cache holds
    """
    started_ms = clock_ms()
    remove_leftovers(files, job.directory)
    cleaning = _Cleaning(files, job, throttle)
    offset_map = cleaning.map_dirty_part()
    groups = cleaning.filter_groups(offset_map)
    if groups:
        files.sync_directory(job.directory)
    return CleaningResult(
        groups=tuple(groups),
        end_offset=offset_map.end_offset,
        read_bytes=cleaning.read_bytes,
        written_bytes=cleaning.written_bytes,
        read_records=cleaning.read_records,
        kept_records=cleaning.kept_records,
        elapsed_ms=clock_ms() - started_ms,
    )


class _Cleaning:
    def __init__(
        self, files: FileSystem, job: CleaningJob, throttle: Callable[[int], None]
    ) -> None:
        self._files = files
        self._job = job
        self._throttle = throttle
        self._aborted = [
            *read_aborted(files, job.directory, job.base_offsets),
            *(AbortedTransaction(*entry) for entry in job.later_aborts),
        ]
        self.read_bytes = self.written_bytes = 0
        self.read_records = self.kept_records = 0

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._job.directory}/{names.file_name(base_offset, suffix)}"

    def _size(self, base_offset: int, suffix: str) -> int:
        path = self._path(base_offset, suffix)
        return self._files.size(path) if self._files.exists(path) else 0

    def _end_offset(self, number: int) -> int:
        """Exclusive end of a segment: where the next one begins."""
        bases = self._job.base_offsets
        is_last = number + 1 == len(bases)
        return self._job.first_uncleanable_offset if is_last else bases[number + 1]

    # The first pass.

    def map_dirty_part(self) -> OffsetMap:
        """The last offset of every key; raises as `clean`."""
        job = self._job
        offset_map = OffsetMap(job.first_dirty_offset, job.map_entries_max)
        if job.first_dirty_offset >= job.first_uncleanable_offset:
            return offset_map
        first = max(bisect_right(job.base_offsets, job.first_dirty_offset) - 1, 0)
        # Markers before the first segment are not met; what they ended must not count as open.
        transactions = CleanedTransactions(
            [entry for entry in self._aborted if entry.last_offset >= job.base_offsets[first]]
        )
        for number in range(first, len(job.base_offsets)):
            base_offset = job.base_offsets[number]
            path = self._path(base_offset, names.LOG)
            with _naming_damage(path):
                is_mapped = self._map_segment(number, offset_map, transactions)
            sync_file(self._files, path)
            if not is_mapped:
                break
            offset_map.advance(self._end_offset(number))
        return offset_map

    def _map_segment(
        self, number: int, offset_map: OffsetMap, transactions: CleanedTransactions
    ) -> bool:
        """Map one segment; False when the map is full before its end.

        Checksums are compared in the second pass: a damaged batch makes all of the cleaning fail.
        """
        start_offset = self._job.first_dirty_offset
        next_offset = self._job.base_offsets[number]
        end_offset = self._end_offset(number)
        path = self._path(next_offset, names.LOG)
        for view in iterate_stored(self._files, path, self._files.size(path), self._throttle):
            if view[MAGIC_POSITION] != MAGIC:
                if not self._map_legacy(view, offset_map):
                    return False
                continue
            batch = RecordBatch(view)
            check_offsets(batch, next_offset, end_offset)
            next_offset = batch.next_offset
            count = batch.record_count
            may_discard = transactions.may_discard(batch)
            if batch.last_offset < start_offset:
                continue
            if not may_discard and not batch.is_control and count > 0:
                if not offset_map.fits(count):
                    return False
                map_records(
                    offset_map,
                    records_part(batch),
                    count,
                    batch.base_offset,
                    batch.last_offset_delta,
                )
            offset_map.advance(next_offset)
        return True

    def _map_legacy(self, view: memoryview, offset_map: OffsetMap) -> bool:
        start_offset = self._job.first_dirty_offset
        records = list(decode_legacy_records(view))
        if records[-1].offset < start_offset:
            return True
        if not offset_map.fits(len(records)):
            return False
        for record in records:
            key = record.key
            if key is not None and record.offset >= start_offset:
                if len(key) > PLAIN_KEY_BYTES_MAX:
                    key = digest(key)
                offset_map.put(key, record.offset)
        offset_map.advance(records[-1].offset + 1)
        return True

    # The second pass.

    def filter_groups(self, offset_map: OffsetMap) -> list[CleanedGroup]:
        """Write the cleaned segments; raises as `clean`."""
        job = self._job
        if offset_map.end_offset <= job.first_dirty_offset:
            return []
        count = bisect_left(job.base_offsets, offset_map.end_offset)
        sources = [
            SourceSegment(
                base_offset,
                self._end_offset(number),
                self._files.size(self._path(base_offset, names.LOG)),
                self._size(base_offset, names.OFFSET_INDEX),
                self._size(base_offset, names.TIME_INDEX),
            )
            for number, base_offset in enumerate(job.base_offsets[:count])
        ]
        groups = group_segments(
            sources, segment_bytes=job.segment_bytes, index_bytes=job.segment_index_bytes
        )
        transactions = CleanedTransactions(self._aborted)
        batch_filter = BatchFilter(offset_map, job, transactions)
        legacy_horizon_ms = self._legacy_horizon_ms()
        cleaned = [
            self._filter_group(group, batch_filter, transactions, legacy_horizon_ms)
            for group in groups
        ]
        self.read_records = batch_filter.read_records
        self.kept_records = batch_filter.kept_records
        return cleaned

    def _legacy_horizon_ms(self) -> int:
        """Tombstones of old formats go from segments that were last changed before it."""
        job = self._job
        count = bisect_left(job.base_offsets, job.first_dirty_offset)
        if not count:
            return 0
        path = self._path(job.base_offsets[count - 1], names.LOG)
        return self._files.modified_ms(path) - job.delete_retention_ms

    def _filter_group(
        self,
        group: Sequence[SourceSegment],
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
        legacy_horizon_ms: int,
    ) -> CleanedGroup:
        files = self._files
        cleaned = CleanedSegment(files, self._job, group[0].base_offset, self._throttle)
        modified_ms = 0
        try:
            for source in group:
                path = self._path(source.base_offset, names.LOG)
                modified_ms = files.modified_ms(path)
                batch_filter.begin_segment(
                    source.end_offset, drops_legacy_tombstones=modified_ms <= legacy_horizon_ms
                )
                with _naming_damage(path):
                    for view in iterate_stored(files, path, source.size_bytes, self._throttle):
                        filtered = batch_filter.filter(view)
                        if filtered is not None:
                            cleaned.add(*filtered)
                self.read_bytes += source.size_bytes
            cleaned.finish(transactions.take_retained(), modified_ms)
        finally:
            cleaned.close()
        self.written_bytes += cleaned.size
        return CleanedGroup(
            base_offset=group[0].base_offset,
            replaced_base_offsets=tuple(source.base_offset for source in group),
            size_bytes=cleaned.size,
        )


@contextmanager
def _naming_damage(path: str) -> Iterator[None]:
    """Add the path of the segment to the error."""
    try:
        yield
    except (BrokerError, CorruptBatch, IndexError) as error:
        raise CorruptBatch(f"{path}: {error}") from error
