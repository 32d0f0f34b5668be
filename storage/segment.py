"""One segment of a log: its `.log` file and the three indexes beside it.

A segment knows no other one and no rule about when it is closed or deleted.  The one in use
(`is_ready`) has its indexes in memory; those of closed ones are loaded when looked up and may be
forgotten again.  What it costs to have a closed segment: one object, no descriptor.

Order of writing: the batch, then (in memory) its index entry; the index files follow some hundred
entries later, at the latest when the segment is closed.

Source: Kafka's LogSegment.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from storage import names
from storage.batch_scan import CorruptBatch, FoundBatch, iterate_headers
from storage.descriptors import Descriptors, Handle
from storage.index_file import UNKNOWN, CorruptIndex, IndexFile
from storage.log_config import LogConfig
from storage.offset_index import OffsetIndex
from storage.time_index import NO_TIMESTAMP, TimeIndex
from storage.txn_index import AbortedTransaction, TxnIndex

INDEX_WRITE_BYTES: Final = 4_096
"""Entries of the segment in use wait in memory until they make up this much."""
SCAN_ONLY_BYTES: Final = 8_192
"""Up to this size the end of a segment is found without its index."""


class Segment:
    """Batches from `base_offset` on; sizes, positions and times are those of its file."""

    __slots__ = (
        "_offset_file",
        "_offset_index",
        "_time_file",
        "_time_index",
        "_txn_file",
        "_txn_index",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "first_timestamp_ms",
        "handle",
        "is_ready",
        "jitter_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "shared",
        "size",
    )

    size: int
    """Bytes of the batches; the file is never read beyond."""
    is_ready: bool
    """Whether it may be appended to: its indexes and times are in memory."""
    bytes_since_index: int
    """Written since the last index entry."""
    created_ms: int
    """When it was made, or loaded."""
    first_timestamp_ms: int
    """Greatest timestamp of the first batch, -1 when there is none; while `is_ready`."""
    max_timestamp_ms: int
    """Greatest timestamp, or -1; while `is_ready`."""
    max_timestamp_offset: int
    """Last offset of the first batch that has it; while `is_ready`."""
    jitter_ms: int
    """Its share of segment.jitter.ms."""

    def __init__(
        self, shared: Descriptors, directory: str, base_offset: int, *, size: int, created_ms: int
    ) -> None:
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
        self.jitter_ms = 0
        self._offset_index: OffsetIndex | None = None
        self._offset_file = IndexFile()
        self._time_index: TimeIndex | None = None
        self._time_file = IndexFile()
        self._txn_index: TxnIndex | None = None
        self._txn_file = IndexFile()

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
    def offset_index(self) -> OffsetIndex:
        """Loaded when needed.

        raises  OSError; CorruptBatch when it has to be rebuilt and the segment is damaged
        """
        index = self._offset_index
        if index is None:
            self._load_indexes()
            assert self._offset_index is not None, "loaded just now"
            return self._offset_index
        if not self.is_ready:
            self.shared.indexes.note_used(self)
        return index

    @property
    def time_index(self) -> TimeIndex:
        """Loaded when needed; raises as `offset_index`."""
        index = self._time_index
        if index is None:
            self._load_indexes()
            assert self._time_index is not None, "loaded just now"
            return self._time_index
        if not self.is_ready:
            self.shared.indexes.note_used(self)
        return index

    @property
    def txn_index(self) -> TxnIndex:
        """Loaded when needed; raises OSError."""
        index = self._txn_index
        if index is None:
            data = self._read(names.TXN_INDEX)
            try:
                index = TxnIndex.decode(data or b"", self.base_offset)
            except CorruptIndex as error:
                raise CorruptBatch(f"{self.path(names.TXN_INDEX)}: {error}") from None
            self._txn_index = index
            self._txn_file.written_bytes = len(data or b"")
        return index

    def _read(self, suffix: str) -> bytes | None:
        try:
            return self.shared.files.read(self.path(suffix))
        except FileNotFoundError:
            return None

    def _load_indexes(self) -> None:
        """Offset and time index from their files; both anew from the .log file if one is no good.

        Source: Kafka rebuilds all indexes of a segment when one fails its sanity check.
        """
        offset_data, time_data = self._read(names.OFFSET_INDEX), self._read(names.TIME_INDEX)
        try:
            if offset_data is None or time_data is None:
                raise CorruptIndex("an index file is missing")
            self._offset_index = OffsetIndex.decode(
                offset_data, self.base_offset, log_bytes=self.size
            )
            self._time_index = TimeIndex.decode(time_data, self.base_offset)
            # Zeros behind the entries are not counted: the file is written anew then.
            is_exact = len(self._offset_index.data) == len(offset_data)
            self._offset_file.written_bytes = len(offset_data) if is_exact else UNKNOWN
            is_exact = len(self._time_index.data) == len(time_data)
            self._time_file.written_bytes = len(time_data) if is_exact else UNKNOWN
        except CorruptIndex:
            self._rebuild_indexes()
        if not self.is_ready:
            self._note_loaded()

    def _note_loaded(self) -> None:
        assert self._offset_index is not None, "both indexes are in memory"
        assert self._time_index is not None, "both indexes are in memory"
        self.shared.indexes.note_loaded(
            self, len(self._offset_index.data) + len(self._time_index.data)
        )

    def _rebuild_indexes(self) -> None:
        """From the headers in the .log file; the index files are replaced and synced at once.

        No later start checks them, so they must not be torn.
        """
        txn_index, txn_bytes = self._txn_index, self._txn_file.written_bytes
        self.reset_indexes()
        self._txn_index, self._txn_file.written_bytes = txn_index, txn_bytes
        interval_bytes = LogConfig().index_interval_bytes
        for found in iterate_headers(self.handle.use(), 0, self.size, chunk_bytes=1 << 16):
            self.note_batch(
                found.position,
                found.size,
                found.last_offset,
                found.max_timestamp_ms,
                interval_bytes,
            )
        self.replace_indexes()

    def reset_indexes(self) -> None:
        """Forget what the index files say, before they are made anew from the batches."""
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._txn_index = TxnIndex()
        for file in (self._offset_file, self._time_file, self._txn_file):
            file.written_bytes = UNKNOWN
        self.bytes_since_index = 0
        self.first_timestamp_ms = self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset

    def forget_indexes(self) -> None:
        """Drop offset and time index; they are read from their files when needed again."""
        assert not self.is_ready, "the segment in use needs its indexes"
        self._offset_index = None
        self._time_index = None

    # Appending.

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
            assert self._offset_index is not None, "the segment is ready"
            assert self._time_index is not None, "the segment is ready"
            self._offset_index.append(last_offset, position)
            self._time_index.append_if_younger(self.max_timestamp_ms, self.max_timestamp_offset)
            self.bytes_since_index = 0
        self.bytes_since_index += size

    def has_much_to_write(self) -> bool:
        """Whether the index entries that wait in memory are many."""
        assert self._offset_index is not None, "the segment is ready"
        return len(self._offset_index.data) - self._offset_file.written_bytes >= INDEX_WRITE_BYTES

    def index_entries_left(self, config: LogConfig) -> int:
        """How many entries the fuller one of its indexes may still take; not positive when full."""
        assert self._offset_index is not None, "the segment is ready"
        assert self._time_index is not None, "the segment is ready"
        return min(
            config.offset_index_entries_max - len(self._offset_index),
            config.time_index_entries_max - len(self._time_index),
        )

    def note_aborted(self, entry: AbortedTransaction) -> None:
        """Add to the transaction index, in memory."""
        self.txn_index.append(entry)

    def write_indexes(self, *, is_last: bool) -> None:
        """Bring the index files up to what is in memory.

        is_last  also note the greatest timestamp: nothing is appended after it for now
        raises   OSError; the next call writes what is missing
        """
        files = self.shared.files
        offset_index, time_index = self.offset_index, self.time_index
        if is_last:
            time_index.append_if_younger(self.max_timestamp_ms, self.max_timestamp_offset)
        self._offset_file.write(files, self.path(names.OFFSET_INDEX), offset_index.data)
        self._time_file.write(files, self.path(names.TIME_INDEX), time_index.data)
        self._write_txn_index()

    def _write_txn_index(self) -> None:
        if self._txn_index is None:
            return
        files, path = self.shared.files, self.path(names.TXN_INDEX)
        data = self._txn_index.encode()
        if data:
            self._txn_file.write(files, path, data)
            return
        if self._txn_file.written_bytes and files.exists(path):
            files.remove(path)
        self._txn_file.written_bytes = 0

    def replace_indexes(self) -> None:
        """Write the indexes whole, the greatest timestamp included, and sync them.

        For index files that no later start checks, so that they must not be torn.

        raises  OSError
        """
        files = self.shared.files
        offset_index, time_index = self.offset_index, self.time_index
        time_index.append_if_younger(self.max_timestamp_ms, self.max_timestamp_offset)
        self._offset_file.replace(files, self.path(names.OFFSET_INDEX), offset_index.data)
        self._time_file.replace(files, self.path(names.TIME_INDEX), time_index.data)
        if self._txn_index is not None and self._txn_index.entries:
            self._txn_file.replace(files, self.path(names.TXN_INDEX), self._txn_index.encode())
        else:
            self._write_txn_index()

    def get_ready(self, jitter_ms: int) -> None:
        """Load what appending needs; the segment is the last of its log from now on.

        raises  OSError; CorruptBatch
        """
        if self._offset_index is None or self._time_index is None:
            self._load_indexes()
        self.shared.indexes.forget(self)
        self.is_ready = True
        self.max_timestamp_ms, self.max_timestamp_offset = self.time_index.last()
        self.first_timestamp_ms = NO_TIMESTAMP
        for found in iterate_headers(self.handle.use(), 0, self.size, chunk_bytes=128):
            self.first_timestamp_ms = found.max_timestamp_ms
            break
        self.jitter_ms = jitter_ms

    def seal(self) -> None:
        """Nothing is appended any more; `write_indexes` has been called."""
        self.is_ready = False
        self._note_loaded()

    # Finding.

    def find(self, offset: int) -> FoundBatch | None:
        """The first batch whose last offset is at or behind `offset`; None when there is none.

        raises  OSError; CorruptBatch
        cost    an index lookup (2 us) and a scan of about index.interval.bytes
        """
        if self.size <= SCAN_ONLY_BYTES:
            return self._scan_from(0, offset)
        position = self.offset_index.lookup(offset)[1]
        try:
            return self._scan_from(position, offset)
        except CorruptBatch:
            if position == 0:
                raise
        self._rebuild_indexes()
        return self._scan_from(self.offset_index.lookup(offset)[1], offset)

    def _scan_from(self, position: int, offset: int) -> FoundBatch | None:
        """Raises CorruptBatch also when `position` is too far, which only a bad index can say."""
        for found in iterate_headers(self.handle.use(), position, self.size):
            if found.base_offset > offset and found.position == position > 0:
                raise CorruptBatch(f"an index entry leads too far, to position {position}")
            if found.last_offset >= offset:
                return found
        return None

    def last_batch(self) -> FoundBatch | None:
        """The last batch, None when there is none.

        raises  OSError; CorruptBatch when the file does not end with a whole batch
        """
        position = 0
        if self.size > SCAN_ONLY_BYTES:
            entry = self.offset_index.last()
            position = entry[1] if entry is not None else 0
        newest = deque(iterate_headers(self.handle.use(), position, self.size), maxlen=1)
        return newest[0] if newest else None

    def largest_timestamp(self) -> tuple[int, int]:
        """(greatest timestamp, last offset of its batch); -1 when no record has one."""
        if self.is_ready:
            return self.max_timestamp_ms, self.max_timestamp_offset
        return self.time_index.last()

    def largest_timestamp_or_change_ms(self) -> int:
        """Greatest timestamp; the file's time of change where no record has one."""
        timestamp_ms = self.largest_timestamp()[0]
        if timestamp_ms >= 0:
            return timestamp_ms
        return self.shared.files.modified_ms(self.handle.path)

    # Shortening and removing.

    def truncate(self, found: FoundBatch, now_ms: int) -> None:
        """Drop `found` and everything behind it; the segment is closed until `get_ready`.

        raises  OSError; the segment must be loaded anew then
        """
        end_offset = found.base_offset
        offset_index, time_index, txn_index = self.offset_index, self.time_index, self.txn_index
        self.handle.use().truncate(found.position)
        self.size = found.position
        offset_index.truncate(end_offset)
        time_index.truncate(end_offset)
        txn_index.truncate(end_offset)
        self._cut_index_files()
        self._note_tail(offset_index, time_index)
        self.is_ready = False
        self.bytes_since_index = 0
        if self.size == 0:
            self.created_ms = now_ms

    def _note_tail(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """The greatest timestamp may lie behind the last entry."""
        last = offset_index.last()
        timestamp_ms, offset = time_index.last()
        start = last[1] if last is not None else 0
        for found in iterate_headers(self.handle.use(), start, self.size):
            if found.max_timestamp_ms > timestamp_ms:
                timestamp_ms, offset = found.max_timestamp_ms, found.last_offset
        time_index.append_if_younger(timestamp_ms, offset)

    def _cut_index_files(self) -> None:
        files = self.shared.files
        offset_bytes, time_bytes = len(self.offset_index.data), len(self.time_index.data)
        self._offset_file.cut(files, self.path(names.OFFSET_INDEX), offset_bytes)
        self._time_file.cut(files, self.path(names.TIME_INDEX), time_bytes)
        txn_bytes = len(self.txn_index.encode())
        self._txn_file.cut(files, self.path(names.TXN_INDEX), txn_bytes)

    def drop(self) -> None:
        """Forget indexes and descriptor: the files are about to be renamed, removed or left."""
        self.is_ready = False
        self.shared.indexes.forget(self)
        self._offset_index = self._time_index = None
        self.handle.close()

    def existing_paths(self) -> list[str]:
        """Paths of its files that are there, the .log file last."""
        files = self.shared.files
        suffixes = (names.TXN_INDEX, names.TIME_INDEX, names.OFFSET_INDEX, names.LOG)
        return [path for suffix in suffixes if files.exists(path := self.path(suffix))]

    def check(self) -> FoundBatch | None:
        """Assert the invariants of the indexes against the file; for tests and the simulator.

        returns  the last batch
        """
        batches = list(iterate_headers(self.handle.use(), 0, self.size))
        starts = {found.position: found for found in batches}
        former = self.base_offset - 1
        for found in batches:
            assert found.base_offset > former, "offsets do not rise"
            former = found.last_offset
        entries = self.offset_index
        for number in range(len(entries)):
            last_offset, position = entries.entry(number)
            assert starts[position].last_offset == last_offset, "an index entry points elsewhere"
        ends = {found.last_offset: found.max_timestamp_ms for found in batches}
        for number in range(len(self.time_index)):
            timestamp_ms, offset = self.time_index.entry(number)
            assert ends[offset] == timestamp_ms, "a time index entry points elsewhere"
        greatest = max((found.max_timestamp_ms for found in batches), default=NO_TIMESTAMP)
        assert self.largest_timestamp()[0] == greatest, "the greatest timestamp is another one"
        return batches[-1] if batches else None
