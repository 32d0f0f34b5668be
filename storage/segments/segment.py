"""One segment of a log: its `.log` file and its three indexes.

A segment knows no other segment and no rule about when it is rolled or deleted.  Its memory: an
object, and the index entries of the active segment that are not in their files yet.

Order of writing: the batch, then (in memory) its index entry; the index files follow some hundred
entries later, at the latest when the segment is closed.

No call takes longer the larger the segment is, but for rebuilding its indexes.  That happens within
the call that finds them unusable, unless `Descriptors.rebuilds_later` says that it is done in a
thread: then the call raises `IndexUnready`.

Source: Kafka's LogSegment.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from odradek.protocol.records.batch import RecordBatch
from odradek.runtime.files import Bytes
from odradek.storage.events import StorageEvent
from odradek.storage.files import names
from odradek.storage.files.batch_scan import BatchHeaders, CorruptBatch, FoundBatch, iterate_headers
from odradek.storage.files.descriptors import Descriptors, Handle
from odradek.storage.files.disk_errors import is_full
from odradek.storage.indexes.entry_scan import Batches, find_by_time_from, find_from
from odradek.storage.indexes.index_file import CorruptIndex, IndexUnready
from odradek.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.indexes.segment_indexes import SegmentIndexes
from odradek.storage.indexes.time_index import NO_TIMESTAMP
from odradek.storage.indexes.txn_file import TxnFile
from odradek.storage.log_config import LogConfig

Found = TypeVar("Found")

INDEX_WRITE_BYTES: Final = 4_096
"""Entries of the active segment wait in memory until they have this size."""
SCAN_ONLY_BYTES: Final = 8_192
"""Up to this size a segment is searched without its indexes."""
ENDS_MAX: Final = 16
"""Readers of one segment, each at its own place, that need no index lookup."""
REBUILT_INTERVAL_BYTES: Final = 4_096
"""Between the entries of an index that is rebuilt, whatever index.interval.bytes is: that entries
are too far apart for a lookup is one of the reasons to rebuild it (`entry_scan.HEADERS_MAX`)."""
HEADER_BYTES: Final = 64
"""A read of one header."""


class TruncationPoint(NamedTuple):
    """Where a segment is to be truncated."""

    batch: FoundBatch
    """The first batch to be dropped."""
    entry_counts: tuple[int, int]
    """Entries of the offset and of the time index that remain."""


class Segment:
    """Batches from `base_offset` on; sizes, positions and times are those of its file."""

    __slots__ = (
        "_ends",
        "_indexes",
        "_largest",
        "_txn_file",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "damage",
        "directory",
        "first_timestamp_ms",
        "handle",
        "is_ready",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "shared",
        "size",
        "truncation_count",
    )

    size: int
    """Bytes of the batches; the file is never read beyond it."""
    is_ready: bool
    """Whether it may be appended to: its indexes are loaded, its times are in memory."""
    bytes_since_index: int
    """Written since the last index entry."""
    created_ms: int
    """When it was created, or loaded."""
    first_timestamp_ms: int
    """Greatest timestamp of the first batch, -1 when there is none; while `is_ready`."""
    max_timestamp_ms: int
    """Greatest timestamp, or -1; while `is_ready`."""
    max_timestamp_offset: int
    """Last offset of the first batch that has it; while `is_ready`."""
    truncation_count: int
    """How often it was truncated, or taken out of the log."""
    damage: str | None
    """Why its indexes cannot be rebuilt; None: that was not tried, or they were."""

    def __init__(
        self, shared: Descriptors, directory: str, base_offset: int, *, size: int, created_ms: int
    ) -> None:
        """Nothing is read yet."""
        self.shared = shared
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.handle = Handle(shared, f"{directory}/{names.file_name(base_offset, names.LOG)}")
        self.is_ready = False
        self.bytes_since_index = 0
        self.first_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.truncation_count = 0
        self.damage = None
        self._ends: dict[int, int] | None = None
        """Where batches end that were found last: the offset after each, the position."""
        self._largest: tuple[int, int] | None = None
        self._indexes: SegmentIndexes | None = None
        self._txn_file: TxnFile | None = None

    @classmethod
    def create(
        cls, shared: Descriptors, directory: str, base_offset: int, *, created_ms: int
    ) -> Segment:
        """A new, empty segment; files of its names are emptied.

        raises  OSError; some of its files may be there then
        """
        segment = cls(shared, directory, base_offset, size=0, created_ms=created_ms)
        segment.reset_indexes()
        segment.write_indexes(is_last=False)
        files = shared.files
        file = files.open(segment.handle.path, create=True)
        if file.size():
            file.truncate(0)
        shared.adopt(segment.handle, file)
        segment.is_ready = True
        return segment

    def path(self, suffix: str) -> str:
        """Path of one of its files."""
        return f"{self.directory}/{names.file_name(self.base_offset, suffix)}"

    # Indexes.

    @property
    def indexes(self) -> SegmentIndexes:
        """Offset and time index; `load_indexes` before they are looked up."""
        indexes = self._indexes
        if indexes is None:
            # Most closed segments are never looked into.
            indexes = self._indexes = SegmentIndexes(self.shared, self.directory, self.base_offset)
        return indexes

    def load_indexes(self) -> None:
        """Load both indexes unless they are loaded; raises as `find`."""
        try:
            self.indexes.load(self.size)
        except CorruptIndex as error:
            self._mend_indexes(error)

    def _mend_indexes(self, error: CorruptIndex) -> None:
        """Rebuild both indexes, now or in a thread.

        raises  IndexUnready: in a thread; CorruptBatch: the .log file is damaged; OSError
        source  Kafka rebuilds all indexes of a segment when one fails its sanity check
        """
        if self.damage is not None:
            raise CorruptBatch(self.damage)
        is_loop_waiting = self.shared.rebuilds_later
        if self.shared.is_read_only or (is_loop_waiting and self.size > SCAN_ONLY_BYTES):
            self.rebuild_later(str(error))
            raise IndexUnready(self.handle.path)
        self._report_rebuild(str(error))
        self.reset_times()
        self.indexes.reset()
        try:
            self.walk(0)
        except CorruptBatch:
            # The files keep the entries after the damage; the next lookup loads them again.
            self.indexes.close()
            raise
        self.note_greatest()
        # No later start checks them, so they must not be torn; but the loop waits for no sync.
        keep = self.indexes.write if is_loop_waiting else self.indexes.replace
        try:
            keep()
        except CorruptIndex as again:
            # Made a moment ago and gone, as the folder is.
            raise FileNotFoundError(errno.ENOENT, str(again)) from again
        except OSError as failure:
            # They are in memory: on a full disk they go into their files with the next entries.
            if not is_full(failure):
                raise

    def _report_rebuild(self, reason: str) -> None:
        self.shared.report(StorageEvent(self.handle.path, f"its indexes are rebuilt: {reason}"))

    def rebuild_later(self, reason: str) -> None:
        """Have both indexes rebuilt in a thread, unless they are being rebuilt."""
        shared = self.shared
        if shared.rebuilds_later and self not in shared.rebuilding:
            self._report_rebuild(reason)
            shared.request_rebuild(self, reason)

    def _by_index(self, look: Callable[[], Found]) -> Found:
        """The result of `look`; if the indexes mislead it, of a second call with rebuilt ones."""
        self.load_indexes()
        try:
            return look()
        except CorruptIndex as error:
            self._mend_indexes(error)
        try:
            return look()
        except CorruptIndex as error:
            raise CorruptBatch(str(error)) from error

    def extend_to(self, size: int) -> None:
        """The file has `size` bytes of batches now; `walk` makes the index entries for them."""
        self.size = size

    def walk(self, position: int) -> None:
        """Make the index entries of the batches from `position` on; raises CorruptBatch, OSError.

        cost  1.5 us a batch; the interpreter is free for other threads at every read of 16 KiB
        """
        former, offset_max = self.base_offset - 1, self.base_offset + RELATIVE_OFFSET_MAX
        for batch in iterate_headers(self.handle.use(), position, self.size, chunk_bytes=1 << 14):
            last_offset, newest_ms = batch.last_offset, batch.max_timestamp_ms
            if not former < batch.base_offset <= last_offset <= offset_max:
                raise CorruptBatch(f"offset {batch.base_offset} at position {batch.position}")
            former = last_offset
            self.note_batch(
                batch.position, batch.size, last_offset, newest_ms, REBUILT_INTERVAL_BYTES
            )

    def reset_times(self) -> None:
        """Forget the times of the batches, before they are walked over."""
        self._largest = None
        self.bytes_since_index = 0
        self.first_timestamp_ms = self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset

    def reset_indexes(self) -> None:
        """Empty all indexes, before they are rebuilt from the batches."""
        self.reset_times()
        self.indexes.reset()
        self.aborted.reset()

    def use_indexes(self, indexes: SegmentIndexes) -> None:
        """Use these, which are empty whatever their files contain."""
        self._indexes = indexes
        indexes.reset()

    def take_indexes(self, built: Segment) -> None:
        """Use the indexes of `built`; their files have the names of this one's by now."""
        self.indexes.take(built.indexes)
        self.bytes_since_index = built.bytes_since_index
        self._largest = None

    def note_damage(self, damage: str) -> None:
        """The indexes cannot be rebuilt, for this reason."""
        self.damage = damage

    def note_greatest(self) -> None:
        """Note the greatest timestamp so far in the time index, in memory."""
        self.indexes.times.append_if_younger(self.max_timestamp_ms, self.max_timestamp_offset)

    @property
    def aborted(self) -> TxnFile:
        """Its aborted transactions."""
        if self._txn_file is None:
            path = self.path(names.TXN_INDEX)
            self._txn_file = TxnFile(self.shared, path, self.base_offset)
        return self._txn_file

    # Appending.

    def append(
        self, data: Bytes, size: int, last_offset: int, max_timestamp_ms: int, interval_bytes: int
    ) -> bool:
        """Write one batch of `size` bytes; returns whether an index entry was made for it.

        raises  OSError; a part of the batch may be in the file
        """
        # `handle.use()` would take 3 % of an append.
        handle = self.handle
        handle.was_used = True
        (handle.file or handle.use()).append((data,))
        position = self.size
        self.size = position + size
        if self.bytes_since_index > interval_bytes or position == 0:
            self.note_batch(position, size, last_offset, max_timestamp_ms, interval_bytes)
            return True
        self.bytes_since_index += size
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        return False

    def append_batches(
        self, batches: Sequence[RecordBatch], base_offset: int, interval_bytes: int
    ) -> None:
        """Write several batches at once, of which the first one has `base_offset`.

        raises  OSError; a part of them may be in the file
        """
        self.handle.use().append([batch.view for batch in batches])
        offset = base_offset
        for batch in batches:
            size = batch.size
            last_offset = offset + batch.last_offset_delta
            max_timestamp_ms = batch.max_timestamp_ms
            position = self.size
            self.size = position + size
            if self.bytes_since_index > interval_bytes or position == 0:
                self.note_batch(position, size, last_offset, max_timestamp_ms, interval_bytes)
            else:
                self.bytes_since_index += size
                if max_timestamp_ms > self.max_timestamp_ms:
                    self.max_timestamp_ms = max_timestamp_ms
                    self.max_timestamp_offset = last_offset
            offset = last_offset + 1

    def write(self, chunks: Sequence[Bytes]) -> None:
        """Write batches; `note_written` accounts for each.

        raises  OSError; a part of them may be in the file
        """
        self.handle.use().append(chunks)

    def note_written(
        self, size: int, last_offset: int, max_timestamp_ms: int, interval_bytes: int
    ) -> None:
        """Account for the next batch that was written."""
        position = self.size
        self.size = position + size
        self.note_batch(position, size, last_offset, max_timestamp_ms, interval_bytes)

    def note_batch(
        self, position: int, size: int, last_offset: int, max_timestamp_ms: int, interval_bytes: int
    ) -> None:
        """Account for a batch that is in the file: times, and an index entry when one is due."""
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index > interval_bytes:
            self.indexes.offsets.append(last_offset, position)
            self.note_greatest()
            self.bytes_since_index = 0
        self.bytes_since_index += size

    def has_much_to_write(self) -> bool:
        """Whether the index entries that wait in memory are many."""
        return len(self.indexes.offsets.pending) >= INDEX_WRITE_BYTES

    def index_entries_left(self, config: LogConfig) -> int:
        """How many entries the fuller one of its indexes may still take; not positive when full."""
        return min(
            config.offset_index_entries_max - len(self.indexes.offsets),
            config.time_index_entries_max - len(self.indexes.times),
        )

    def write_indexes(self, *, is_last: bool) -> None:
        """Bring the index files up to what is in memory.

        is_last  also note the greatest timestamp: nothing is appended after it for now
        raises   OSError; the next call writes what is missing
        """
        if is_last:
            self.note_greatest()
        try:
            self.indexes.write()
        except CorruptIndex as error:
            # A file has lost entries that were in it; no start may trust the rest.
            self.indexes.remove_files()
            with suppress(IndexUnready):
                self._mend_indexes(error)
        if self._txn_file is not None:
            self._txn_file.write()

    def replace_indexes(self) -> None:
        """Write the indexes whole, the greatest timestamp included, and sync them.

        For indexes that were made from the batches and that no later start checks, so that their
        files must not be torn.

        raises  OSError
        """
        self.note_greatest()
        self.indexes.replace()
        self.aborted.replace()

    def get_ready(self) -> None:
        """Load what appending needs; the segment is the active one from now on.

        raises  OSError; CorruptBatch
        """
        self.load_indexes()
        # A marker that is written must not find the disk unable to read them.
        self.aborted.load()
        first_timestamp_ms = NO_TIMESTAMP
        for batch in iterate_headers(self.handle.use(), 0, self.size, chunk_bytes=128):
            first_timestamp_ms = batch.max_timestamp_ms
            break
        self.max_timestamp_ms, self.max_timestamp_offset = self.indexes.times.newest
        self.first_timestamp_ms = first_timestamp_ms
        self.is_ready = True

    def seal(self) -> None:
        """The segment is not the active one any more; `write_indexes` has been called."""
        self._largest = (self.max_timestamp_ms, self.max_timestamp_offset)
        self.is_ready = False

    # Finding.

    def find(self, offset: int) -> FoundBatch | None:
        """The first batch whose last offset is at or after `offset`; None when there is none.

        raises  OSError; IndexUnready; CorruptBatch: the .log file is damaged
        cost    an index lookup, 15 us at 262,144 entries, and a scan of about index.interval.bytes;
                one read after a batch that was found lately: a consumer that catches up
        """
        if self.size <= SCAN_ONLY_BYTES or offset <= self.base_offset:
            return find_from((self.base_offset, 0), self._batches(), offset)
        batch = self._after_found(offset)
        if batch is None:
            batch = self._by_index(
                lambda: find_from(self.indexes.offsets.lookup(offset), self._batches(), offset)
            )
            if batch is None:
                return None
        if self._ends is None:
            self._ends = {}
        elif len(self._ends) >= ENDS_MAX:
            del self._ends[next(iter(self._ends))]
        self._ends[batch.last_offset + 1] = batch.position + batch.size
        return batch

    def bound_after(self, position: int) -> int | None:
        """An offset after the batches before `position`, at most an index interval further on;
        None when the index has no entry after it.

        raises  as `find`
        source  Kafka's LogSegment.fetchUpperBoundOffset
        """
        return self._by_index(lambda: self.indexes.offsets.first_after(position))

    def _after_found(self, offset: int) -> FoundBatch | None:
        """The batch after the one that ends before `offset`, if that is where a batch ended."""
        position = None if self._ends is None else self._ends.get(offset)
        if position is None or position >= self.size:
            return None
        try:
            return BatchHeaders(self.handle.use(), self.size, HEADER_BYTES).read(position)
        except CorruptBatch:
            return None  # the index leads to the damage, or around it

    def _batches(self) -> Batches:
        return self.handle.use(), self.base_offset, self.size

    def find_by_time(self, timestamp_ms: int) -> FoundBatch | None:
        """The first batch whose greatest timestamp is at or after `timestamp_ms`, None without one.

        An entry of the time index is made with one of the offset index, so the batch is stored
        between two neighbouring entries of the latter: no search is longer than that of an offset.

        raises  as `find`
        """
        if self.size <= SCAN_ONLY_BYTES:
            start = (self.base_offset, 0)
            return find_by_time_from(start, self._batches(), timestamp_ms, None)
        return self._by_index(lambda: self._find_by_time(timestamp_ms))

    def _find_by_time(self, timestamp_ms: int) -> FoundBatch | None:
        entry = self.indexes.times.first_at_or_after(timestamp_ms)
        if entry is None:
            # For the active segment, what follows the last entry is known.
            entry = self.largest_timestamp()
            if entry[0] < timestamp_ms:
                return None
        before = self.indexes.offsets.lookup(entry[1] - 1)
        return find_by_time_from(before, self._batches(), timestamp_ms, entry[1])

    def last_batch(self) -> FoundBatch | None:
        """The last batch, None when there is none.

        raises  OSError; CorruptBatch when the file does not end with a whole batch
        """
        if self.size <= SCAN_ONLY_BYTES:
            return self._last_from(0)
        return self._by_index(self._last_by_index)

    def _last_by_index(self) -> FoundBatch | None:
        entry = self.indexes.offsets.last()
        if entry is None:
            return self._last_from(0)
        try:
            return self._last_from(entry[1])
        except CorruptBatch as error:
            raise CorruptIndex(str(error)) from error

    def _last_from(self, position: int) -> FoundBatch | None:
        newest = deque(iterate_headers(self.handle.use(), position, self.size), maxlen=1)
        return newest[0] if newest else None

    def is_time_known(self) -> bool:
        """Whether `largest_timestamp` needs no file."""
        return self.is_ready or self._largest is not None

    def largest_timestamp(self) -> tuple[int, int]:
        """(greatest timestamp, last offset of its batch); -1 when no record has one.

        cost    30 us the first time, of a closed segment; raises as `find`
        """
        if self.is_ready:
            return self.max_timestamp_ms, self.max_timestamp_offset
        if self._largest is None:
            try:
                self.indexes.load_times()
            except CorruptIndex as error:
                self._mend_indexes(error)
            self._largest = self.indexes.times.newest
        return self._largest

    def note_largest(self, largest: tuple[int, int]) -> None:
        """Set what `largest_timestamp` returns, found by a copy; the segment is closed."""
        self._largest = largest

    def largest_timestamp_or_change_ms(self) -> int:
        """Greatest timestamp; the modification time of the file where no record has one."""
        timestamp_ms = self.largest_timestamp()[0]
        if timestamp_ms >= 0:
            return timestamp_ms
        return self.shared.files.modified_ms(self.handle.path)

    # Truncating and removing.

    def plan_truncation(self, offset: int) -> TruncationPoint | None:
        """Where to truncate so that every batch is dropped whose last offset is >= `offset`.

        returns  None when there is none; the indexes are loaded all the same.  Raises as `find`
        """
        self.load_indexes()
        batch = self.find(offset)
        if batch is None:
            return None
        end_offset = batch.base_offset
        counts = self._by_index(lambda: self.indexes.entries_before(end_offset))
        return TruncationPoint(batch, counts)

    def truncate(self, point: TruncationPoint, now_ms: int) -> None:
        """Drop a batch and everything after it; the segment is closed until `get_ready`.

        Slices of what is dropped, made before, read nothing of it any more.

        raises  OSError, CorruptBatch: the segment must be loaded again then
        """
        batch = point.batch
        end_offset = batch.base_offset
        self.aborted.load()
        self.truncation_count += 1
        self.handle = self.handle.before_truncation(batch.position)
        self.handle.use().truncate(batch.position)
        self.size = batch.position
        try:
            self.indexes.truncate(point.entry_counts)
            self._note_tail()
        except CorruptIndex as error:
            raise CorruptBatch(str(error)) from error
        self.aborted.truncate(end_offset)
        self.is_ready = False
        self.damage = self._largest = self._ends = None
        self.bytes_since_index = 0
        if self.size == 0:
            self.created_ms = now_ms

    def _note_tail(self) -> None:
        """The greatest timestamp may be after the last entry of the offset index."""
        last = self.indexes.offsets.last()
        timestamp_ms, offset = self.indexes.times.newest
        start = last[1] if last is not None else 0
        for batch in iterate_headers(self.handle.use(), start, self.size):
            if batch.max_timestamp_ms > timestamp_ms:
                timestamp_ms, offset = batch.max_timestamp_ms, batch.last_offset
        self.indexes.times.append_if_younger(timestamp_ms, offset)

    def truncate_torn(self, size: int, *, is_synced: bool) -> None:
        """Drop what follows the first `size` bytes; the indexes are the caller's.

        raises  OSError
        """
        file = self.handle.use()
        file.truncate(size)
        if is_synced:
            file.sync()
        self.size = size
        self._ends = None

    def drop(self) -> None:
        """Close all files: they are about to be renamed, removed or left."""
        self.is_ready = False
        self.truncation_count += 1
        if self._indexes is not None:
            self._indexes.close()
        if self._txn_file is not None:
            self._txn_file.close()
        self.handle.close()

    def existing_paths(self) -> list[str]:
        """Paths of its files that are there, the .log file last."""
        files = self.shared.files
        suffixes = (names.TXN_INDEX, names.TIME_INDEX, names.OFFSET_INDEX, names.LOG)
        return [path for suffix in suffixes if files.exists(path := self.path(suffix))]
