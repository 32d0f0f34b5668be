"""A look-up in the files of a partition, with a line for each hop.

The files are opened to read only and may belong to a running broker, which has the newest entries
of the active segment's indexes in memory: the scan is longer here than in the broker.
Source: Kafka's UnifiedLog.read, LogSegment.translateOffset, LogSegment.findOffsetByTimestamp.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from odradek.bounded_files import open_file, read_file
from odradek.protocol.records.batch import MAGIC, RecordBatch
from odradek.protocol.records.record import record_times
from odradek.runtime.files import File
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch, FoundBatch, iterate_headers
from odradek.storage.indexes import offset_index, time_index
from odradek.storage.indexes.index_file import IndexFile
from odradek.storage.indexes.offset_index import OffsetIndex
from odradek.storage.indexes.time_index import TimeIndex

INDEX_BYTES_MAX: Final = 1 << 30


class Lookup(NamedTuple):
    """What a look-up found."""

    hops: list[str]
    offset: int | None
    """The first record at or after the offset or time; None: there is none."""
    timestamp_ms: int | None


class UnreadableLogError(Exception):
    """The files cannot be read; the message is one line."""


class _ReadOnlyFile:
    """The part of a `File` that reads, of a .log file; counts the bytes that are read."""

    def __init__(self, path: Path) -> None:
        self._file = open_file(path)
        self.path = str(path)
        self.byte_count = 0
        self.bytes_at_open = os.fstat(self._file.fileno()).st_size

    def size(self) -> int:
        """Bytes when it was opened; a broker may append more."""
        return self.bytes_at_open

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`."""
        data = os.pread(self._file.fileno(), size, position)
        self.byte_count += len(data)
        return data

    def close(self) -> None:
        self._file.close()


class _CountedSearch(IndexFile):
    """Counts how many entries of an index a search compares."""

    compared = 0

    def count_below(self, read: Any, at: int, limit: int) -> int:
        def counted(data: Any, at: int) -> Any:
            self.compared += 1
            return read(data, at)

        return super().count_below(counted, at, limit)


class _OffsetIndex(_CountedSearch, OffsetIndex):
    """The offset index of a segment."""


class _TimeIndex(_CountedSearch, TimeIndex):
    """The time index of a segment."""


class _Segment:
    """A segment of the folder, and the hops through it."""

    def __init__(self, folder: Path, base_offset: int, hops: list[str]) -> None:
        """raises  OSError, CorruptIndex"""
        self.name = names.file_name(base_offset, "")
        self.base_offset = base_offset
        self.file = _ReadOnlyFile(folder / (self.name + names.LOG))
        self._hops = hops
        self._offsets, self.times = _OffsetIndex(base_offset), _TimeIndex(base_offset)
        path = str(folder / self.name)
        self._offsets.append_entries(_entries(path + names.OFFSET_INDEX, offset_index.ENTRY_BYTES))
        self.times.append_entries(_entries(path + names.TIME_INDEX, time_index.ENTRY_BYTES))
        self.times.note_newest()

    def position_of(self, offset: int) -> int:
        """Where the scan for an offset begins, by the offset index."""
        self._offsets.compared = 0
        entry_offset, position = self._offsets.lookup(offset)
        leads = (
            f"the entry for offset {entry_offset} leads to position {position}"
            if position
            else "no entry is at or before it, so the scan begins at position 0"
        )
        self._hops.append(
            f"offset index {self.name}.index: {len(self._offsets)} entries, "
            f"{self._offsets.compared} compared with offset {offset}: {leads}"
        )
        return position

    def position_of_time(self, timestamp_ms: int) -> int:
        """Where the scan for a time begins, by both indexes."""
        self.times.compared = 0
        entry = self.times.first_at_or_after(timestamp_ms)
        if entry is not None:
            offset = entry[1] - 1
            leads = f"the entry of {entry[0]} leads to offset {entry[1]}"
        else:
            offset = self.times.newest[1]
            leads = f"none is as young, so the scan begins after offset {offset}"
        self._hops.append(
            f"time index {self.name}.timeindex: {len(self.times)} entries, "
            f"{self.times.compared} compared with {timestamp_ms}: {leads}"
        )
        return self.position_of(offset) if offset >= self.base_offset else 0

    def scan(self, position: int, matches: Callable[[FoundBatch], bool]) -> Iterator[FoundBatch]:
        """The batches from a position on that match; each adds a hop.

        An index that leads to where no batch begins is passed over.
        """
        before = self.file.byte_count
        passed = 0
        try:
            for batch in iterate_headers(cast(File, self.file), position, self.file.size()):
                if not matches(batch):
                    passed += 1
                    continue
                self._hops.append(
                    f"scan {self.name}.log from position {position}: {passed} batches passed, "
                    f"{self.file.byte_count - before} bytes read; at position {batch.position} is "
                    f"the batch of offsets {batch.base_offset} to {batch.last_offset}, "
                    f"{batch.size} bytes, youngest timestamp {batch.max_timestamp_ms}"
                )
                yield batch
        except CorruptBatch as error:
            if position and not passed:
                self._hops.append(f"the index misleads ({error}): the scan begins again")
                yield from self.scan(0, matches)
                return
            self._hops.append(f"scan {self.name}.log ends: {error}")
            return
        self._hops.append(
            f"scan {self.name}.log from position {position}: {passed} batches passed, "
            f"{self.file.byte_count - before} bytes read; the segment ends"
        )

    def record(self, batch: FoundBatch, matches: Callable[[int, int], bool]) -> Lookup | None:
        """The first record of a batch that matches by offset and timestamp."""
        if batch.magic != MAGIC:
            raise UnreadableLogError(
                f"{self.file.path}: format version {batch.magic} at position {batch.position} is "
                "not explained"
            )
        data = self.file.read_at(batch.position, batch.size)
        if len(data) != batch.size:
            raise UnreadableLogError(f"{self.file.path}: position {batch.position} was truncated")
        passed = 0
        for offset, timestamp_ms in record_times(RecordBatch(memoryview(data))):
            if matches(offset, timestamp_ms):
                self._hops.append(
                    f"records of the batch: {passed} passed; offset {offset}, "
                    f"timestamp {timestamp_ms}"
                )
                return Lookup(self._hops, offset, timestamp_ms)
            passed += 1
        self._hops.append(f"records of the batch: {passed} passed, none matches")
        return None


def _entries(path: str, entry_bytes: int) -> bytes:
    """The entries of an index file, without the zeros that it was made with; none if it is missing.

    raises  OSError
    """
    try:
        data = read_file(path, INDEX_BYTES_MAX)
    except FileNotFoundError:
        return b""
    count = -(-len(data.rstrip(b"\0")) // entry_bytes)
    return data[: count * entry_bytes]


def find_folder(directories: Sequence[str], topic: str, partition: int) -> Path:
    """The folder of a partition.

    raises  UnreadableLogError when none of the log directories has it
    """
    name = names.folder_name(topic, partition)
    for directory in directories:
        folder = Path(directory) / name
        if folder.is_dir():
            return folder
    raise UnreadableLogError(f"{name} is not in {', '.join(directories)}")


def _base_offsets(folder: Path) -> list[int]:
    parsed = (names.parse_file_name(path.name) for path in folder.iterdir())
    offsets = sorted(row[0] for row in parsed if row is not None and row[1] == names.LOG)
    if not offsets:
        raise UnreadableLogError(f"{folder} has no segment")
    return offsets


def look_up_offset(folder: Path, offset: int) -> Lookup:
    """The first record at or after an offset.

    raises  UnreadableLogError, OSError
    """
    hops: list[str] = []
    base_offsets = _base_offsets(folder)
    number = max(bisect_right(base_offsets, offset) - 1, 0)
    for count, base_offset in enumerate(base_offsets[number:]):
        hops.append(
            f"segment {names.file_name(base_offset, names.LOG)}, number {number + count + 1} of "
            f"{len(base_offsets)}: "
            + (f"the last one whose name is at or below {offset}" if not count else "the next one")
        )
        segment = _Segment(folder, base_offset, hops)
        try:
            position = segment.position_of(offset) if offset >= base_offset else 0
            for batch in segment.scan(position, lambda batch: batch.last_offset >= offset):
                lookup = segment.record(batch, lambda record, _: record >= offset)
                if lookup is not None:
                    return lookup
        finally:
            segment.file.close()
    return Lookup(hops, None, None)


def look_up_time(folder: Path, timestamp_ms: int) -> Lookup:
    """The first record at or after a time.

    timestamp_ms  milliseconds since 1970
    raises        UnreadableLogError, OSError
    """
    hops: list[str] = []
    base_offsets = _base_offsets(folder)
    skipped = 0
    for number, base_offset in enumerate(base_offsets, 1):
        segment = _Segment(folder, base_offset, hops)
        try:
            is_closed = number < len(base_offsets)
            if is_closed and len(segment.times) and segment.times.newest[0] < timestamp_ms:
                skipped += 1
                continue
            hops.append(
                f"segment {segment.name}.log, number {number} of {len(base_offsets)}: "
                f"{skipped} before it are older by the last entries of their time indexes"
            )
            position = segment.position_of_time(timestamp_ms)
            matching = segment.scan(position, lambda row: row.max_timestamp_ms >= timestamp_ms)
            for batch in matching:
                lookup = segment.record(batch, lambda _, time: time >= timestamp_ms)
                if lookup is not None:
                    return lookup
        finally:
            segment.file.close()
    if not hops:
        hops.append(f"all {skipped} segments are older")
    return Lookup(hops, None, None)
