"""The text of `.index` and `.timeindex` files, compared with the log that they belong to.

Source: Kafka 3.9's DumpLogSegments, OffsetIndex and TimeIndex.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from odradek.bounded_files import open_file, read_file
from odradek.protocol.records.batch import NO_TIMESTAMP
from odradek.storage.files.names import LOG, OFFSET_INDEX
from odradek.tools.dump_log.log_file import (
    MISMATCH,
    MISSING_OFFSET,
    OUT_OF_ORDER,
    WRONG_TIMESTAMP,
    DumpFindings,
    base_offset,
)
from odradek.tools.dump_log.stored_batch import DumpError, StoredBatch, iterate_stored_batches
from odradek.tools.options import INT32_MAX

WARM_ENTRIES: Final = 1024
"""At the end of an index, which are searched first."""
OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")


class IndexOptions(NamedTuple):
    """What is done with an index.

    is_sanity_check    only what a start of a broker checks
    verifies_only      compare it with its log, and do not print it
    message_bytes_max  of the log, from the position of an entry of an offset index on
    """

    is_sanity_check: bool
    verifies_only: bool
    message_bytes_max: int


class _Log:
    """The log that an index belongs to."""

    def __init__(self, descriptor: int, path: Path, size: int) -> None:
        self._descriptor = descriptor
        self._path = str(path)
        self._size = size

    def batches(self, position: int, bytes_max: int) -> Iterator[StoredBatch]:
        """The batches of a slice of the file.

        raises  DumpError for a position that is not in the file
        """
        if position < 0:
            raise DumpError(f"Invalid position: {position} in read from {self._name()}")
        if position > self._size:
            raise DumpError(
                f"Slice from position {position} exceeds end position of {self._name()}"
            )
        end = min(self._size, position + bytes_max)
        return iterate_stored_batches(self._descriptor, self._path, end, position)

    def _name(self) -> str:
        return f"FileRecords(size={self._size}, file={self._path}, start=0, end={INT32_MAX})"


@contextmanager
def _log_of(path: Path) -> Iterator[_Log]:
    log = path.absolute().with_name(path.name.partition(".")[0] + LOG)
    with open_file(log) as file:
        yield _Log(file.fileno(), log, file.seek(0, 2))


def dump_offset_index(name: str, options: IndexOptions, findings: DumpFindings) -> None:
    """Print the file, and note where its offsets and those of the log differ.

    raises  DumpError, OSError
    """
    path = Path(name)
    base = base_offset(path)
    with _log_of(path) as log:
        data = read_file(path, INT32_MAX)
        entries = _OffsetEntries(data, base)
        if not len(entries):
            print(f"{name} is empty.")
            return
        if options.is_sanity_check:
            _check_offset_index(path, data, entries, base)
            print(f"{name} passed sanity check.")
            return
        for number in range(len(entries)):
            offset, position = entries[number]
            # A file that was extended in advance ends in zeros.
            if offset == base and number:
                break
            batch = next(log.batches(position, options.message_bytes_max), None)
            if batch is None:
                raise DumpError("No batch is stored there")
            if batch.last_offset != offset:
                line = f"  Index offset: {offset}, log offset: {batch.last_offset}"
                findings.note(MISMATCH, os.path.abspath(name), line)
            if not options.verifies_only:
                print(f"offset: {offset} position: {position}")


def dump_time_index(name: str, options: IndexOptions, findings: DumpFindings) -> None:
    """Print the file and note what does not fit.

    raises  DumpError, OSError
    """
    path = Path(name)
    base = base_offset(path)
    with _log_of(path) as log:
        offsets = _OffsetEntries(
            read_file(path.with_name(path.name.partition(".")[0] + OFFSET_INDEX), INT32_MAX), base
        )
        data = read_file(path, INT32_MAX)
        if options.is_sanity_check:
            _check_time_index(path, data, base)
            print(f"{name} passed sanity check.")
            return
        former_ms = NO_TIMESTAMP
        for number in range(len(data) // TIME_ENTRY.size):
            timestamp_ms, offset = _time_entry(data, number, base)
            if offset == base and number:
                return
            batches = log.batches(offsets.position_of(offset), INT32_MAX)
            batch = next((each for each in batches if each.last_offset >= offset), None)
            if batch is None or batch.last_offset != offset:
                logged = -1 if batch is None else batch.last_offset
                line = f"Indexed offset: {offset}, found log offset: {logged}"
                findings.note(MISSING_OFFSET, str(path.absolute()), line)
            else:
                times = [stored.record.timestamp_ms for stored in batch.records()]
                largest_ms = max(times, default=NO_TIMESTAMP)
                if largest_ms != timestamp_ms:
                    line = f"  Index timestamp: {timestamp_ms}, log timestamp: {largest_ms}"
                    findings.note(WRONG_TIMESTAMP, str(path.absolute()), line)
                if former_ms >= timestamp_ms:
                    line = f"  Index timestamp: {timestamp_ms}, "
                    line += f"Previously indexed timestamp: {former_ms}"
                    findings.note(OUT_OF_ORDER, str(path.absolute()), line)
            if not options.verifies_only:
                print(f"timestamp: {timestamp_ms} offset: {offset}")
            former_ms = timestamp_ms


class _OffsetEntries:
    """The entries of an offset index, as (offset, position); read when they are needed, since a
    running broker of Apache Kafka extends its index to 10 MiB."""

    def __init__(self, data: bytes, base: int) -> None:
        self._data = data
        self._base = base

    def __len__(self) -> int:
        return len(self._data) // OFFSET_ENTRY.size

    def __getitem__(self, number: int) -> tuple[int, int]:
        relative, position = OFFSET_ENTRY.unpack_from(self._data, number * OFFSET_ENTRY.size)
        return self._base + relative, position

    def position_of(self, offset: int) -> int:
        """Where the last entry at or below `offset` leads to.

        source  Kafka's AbstractIndex, whose search decides what is found among the zeros behind
                the entries of a running broker
        """
        if not len(self):
            return 0
        first_warm = max(0, len(self) - 1 - WARM_ENTRIES)
        low, high = 0, first_warm
        if self[first_warm][0] < offset:
            low, high = first_warm, len(self) - 1
        elif self[0][0] > offset:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            entry_offset = self[middle][0]
            if entry_offset == offset:
                return self[middle][1]
            low, high = (low, middle - 1) if entry_offset > offset else (middle, high)
        return self[low][1]


def _check_offset_index(path: Path, data: bytes, entries: _OffsetEntries, base: int) -> None:
    place = path.absolute()
    last, _ = entries[len(entries) - 1]
    if last < base:
        raise DumpError(
            f"Corrupt index found, index file {place} has non-zero size but the last offset is "
            f"{last} which is less than the base offset {base}"
        )
    if len(data) % OFFSET_ENTRY.size:
        raise DumpError(
            f"Index file {place} is corrupt, found {len(data)} bytes which is neither positive nor "
            f"a multiple of {OFFSET_ENTRY.size}"
        )


def _time_entry(data: bytes, number: int, base: int) -> tuple[int, int]:
    timestamp_ms, relative = TIME_ENTRY.unpack_from(data, number * TIME_ENTRY.size)
    return timestamp_ms, base + relative


def _check_time_index(path: Path, data: bytes, base: int) -> None:
    place = path.absolute()
    count = len(data) // TIME_ENTRY.size
    first_ms, _ = _time_entry(data, 0, base) if count else (NO_TIMESTAMP, base)
    last_ms, last_offset = _time_entry(data, count - 1, base) if count else (first_ms, base)
    if last_ms < first_ms:
        raise DumpError(
            f"Corrupt time index found, time index file ({place}) has non-zero size but the last "
            f"timestamp is {last_ms} which is less than the first timestamp {first_ms}"
        )
    if last_offset < base:
        raise DumpError(
            f"Corrupt time index found, time index file ({place}) has non-zero size but the last "
            f"offset is {last_offset} which is less than the first offset {base}"
        )
    if len(data) % TIME_ENTRY.size:
        raise DumpError(
            f"Time index file {place} is corrupt, found {len(data)} bytes which is neither "
            f"positive nor a multiple of {TIME_ENTRY.size}"
        )
