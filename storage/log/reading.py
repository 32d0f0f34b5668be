"""Reads that are not right at the end of a log: by offset, by time, and aborted transactions.

Source: Kafka's LocalLog.read, LogSegment.read, LogSegment.findOffsetByTimestamp,
UnifiedLog.fetchOffsetByTimestamp, TransactionIndex.collectAbortedTxns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import BATCH_OVERHEAD, RecordBatch
from odradek.protocol.records.record import decode_records
from odradek.protocol.records.timestamps import first_record_at_or_after
from odradek.storage.events import StorageEvent
from odradek.storage.files.batch_scan import (
    MAGIC,
    CorruptBatch,
    FoundBatch,
    iterate_headers,
)
from odradek.storage.files.file_slice import FileSlice
from odradek.storage.log.lookup_budget import Effort
from odradek.storage.segments.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log.log import Log


Position = tuple[int, int, int]
"""(offset, timestamp in ms, leader epoch) of a record."""


@contextmanager
def damage_reported(log: Log) -> Iterator[None]:
    """CorruptBatch becomes BrokerError CORRUPT_MESSAGE."""
    try:
        yield
    except CorruptBatch as error:
        log.shared.report(StorageEvent(log.directory, f"a read met damage: {error}"))
        where = f"{log.topic}-{log.partition}"
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{where}: {error}") from error


def read(
    log: Log, start_offset: int, max_bytes: int, up_to_offset: int, at_least_one: bool
) -> FileSlice | None:
    """`Log.read` without its shortcut."""
    _check_range(log, start_offset)
    if start_offset >= min(up_to_offset, log.end_offset):
        return None
    with damage_reported(log):
        place = _find(log, start_offset)
        if place is None:
            return None
        segment, position, first_bytes = place
        end_position = _end_position(log, segment, up_to_offset)
    if position >= end_position:
        return None
    size = min(max_bytes, end_position - position)
    if size < first_bytes:
        if not at_least_one:
            return None
        size = first_bytes
    segment.handle.use()
    return FileSlice(segment.handle, position, size)


def bytes_between(log: Log, start_offset: int, end_offset: int, max_bytes: int) -> int:
    """`Log.bytes_between`."""
    _check_range(log, start_offset)
    end_offset = min(end_offset, log.end_offset)
    if start_offset >= end_offset:
        return 0
    with damage_reported(log):
        place = _find(log, start_offset)
        if place is None:
            return 0
        first, position, _ = place
        total = -position
        for segment in islice(log.segments, log.segment_number(first.base_offset), None):
            end_position = _end_position(log, segment, end_offset)
            total += end_position
            if total >= max_bytes or end_position < segment.size:
                break
    return min(max(total, 0), max_bytes)


def _check_range(log: Log, offset: int) -> None:
    if not log.log_start_offset <= offset <= log.end_offset:
        raise BrokerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not within {log.log_start_offset}..{log.end_offset}",
        )


def _find(log: Log, offset: int) -> tuple[Segment, int, int] | None:
    """(segment, position, size) of the first batch that ends at or after `offset`."""
    # A compacted segment may end before the next one begins.
    for segment in islice(log.segments, log.segment_number(offset), None):
        place = _find_within(log, segment, offset)
        if place is not None:
            return segment, *place
    return None


def _find_within(log: Log, segment: Segment, offset: int) -> tuple[int, int] | None:
    if segment is log.active:
        place = log.tail.find(offset, segment.size)
        if place is not None:
            return place if place[1] else None
    found = segment.find(offset)
    return None if found is None else (found.position, found.size)


def _end_position(log: Log, segment: Segment, up_to_offset: int) -> int:
    """Where reading must end in a segment: at the first batch that ends at or after the offset."""
    number = log.segment_number(segment.base_offset)
    is_last = number + 1 == len(log.segments)
    end_offset = log.end_offset if is_last else log.base_offsets[number + 1]
    if up_to_offset >= end_offset:
        return segment.size
    if up_to_offset <= segment.base_offset:
        return 0
    place = _find_within(log, segment, up_to_offset)
    return segment.size if place is None else place[0]


def readable_segments(log: Log) -> list[Segment]:
    """From the one on that holds the start of the log; a copy."""
    return log.segments[log.segment_number(log.log_start_offset) :]


def is_index_unready(log: Log, offset: int) -> bool:
    """Whether a read from `offset` on has to wait for an index that is being rebuilt."""
    rebuilding = log.shared.rebuilding
    return bool(rebuilding) and log.segments[log.segment_number(offset)] in rebuilding


def offset_for_timestamp(
    log: Log, timestamp_ms: int, up_to_offset: int, effort: Effort
) -> Position | None:
    """`Log.offset_for_timestamp`."""
    with damage_reported(log):
        found = search_by_time(readable_segments(log), log.log_start_offset, timestamp_ms, effort)
    return found if found is not None and found[0] < up_to_offset else None


def max_timestamp(log: Log, up_to_offset: int | None, effort: Effort) -> Position | None:
    """`Log.max_timestamp`."""
    with damage_reported(log):
        found = search_greatest(readable_segments(log), log.log_start_offset, effort)
    if found is None or (up_to_offset is not None and found[0] >= up_to_offset):
        return None
    return found


def search_by_time(
    segments: Sequence[Segment], start_offset: int, timestamp_ms: int, effort: Effort
) -> Position | None:
    """(offset, timestamp in ms, leader epoch) of the first record that is no older.

    segments      of a log, from the one on that holds `start_offset`, the start of the log
    start_offset  earlier records do not count
    raises        TooLong; IndexUnready; CorruptBatch; BrokerError INVALID_RECORD; OSError
    """
    for segment in segments:
        if not segment.is_time_known():
            effort.on_read()
        if segment.largest_timestamp()[0] < timestamp_ms:
            continue
        found = _search(segment, timestamp_ms, start_offset, effort)
        if found is not None:
            return found
    return None


def _search(
    segment: Segment, timestamp_ms: int, start_offset: int, effort: Effort
) -> Position | None:
    first = segment.find_by_time(timestamp_ms)
    if first is not None and first.last_offset < start_offset:
        first = segment.find(start_offset)
    if first is None:
        return None
    # The first batch has it, unless the log starts after its last young record, or compaction has
    # taken that away.
    for header in iterate_headers(segment.handle.use(), first.position, segment.size):
        effort.on_header()
        if header.max_timestamp_ms < timestamp_ms:
            continue
        batch = _whole(segment, header, effort)
        found = first_record_at_or_after(batch, timestamp_ms, from_offset=start_offset)
        if found is not None:
            return found.offset, found.timestamp_ms, header.leader_epoch
    return None


def _whole(segment: Segment, found: FoundBatch, effort: Effort) -> RecordBatch:
    if found.magic != MAGIC:
        raise CorruptBatch(f"format version {found.magic} at position {found.position}")
    file = segment.handle.use()
    head = RecordBatch(memoryview(file.read_at(found.position, BATCH_OVERHEAD)))
    effort.on_batch(head)
    data = file.read_at(found.position, found.size)
    if len(data) != found.size:
        raise CorruptBatch(f"the batch at position {found.position} is cut short")
    return RecordBatch(memoryview(data))


def search_greatest(
    segments: Sequence[Segment], start_offset: int, effort: Effort
) -> Position | None:
    """(offset, timestamp in ms, leader epoch) of the first record with the greatest timestamp.

    segments, start_offset, raises  as `search_by_time`
    """
    greatest: Position | None = None
    candidates: list[tuple[int, int, int]] = []
    for number, segment in enumerate(segments):
        if not segment.is_time_known():
            effort.on_read()
        timestamp_ms, offset = segment.largest_timestamp()
        if timestamp_ms < 0:
            continue
        if segment.base_offset < start_offset:
            youngest = segment.find(offset)
            if youngest is None or youngest.base_offset < start_offset:
                # It was deleted; which is the greatest of the rest, no index tells.
                greatest = _greatest_from(segment, start_offset, effort)
                continue
        candidates.append((-timestamp_ms, number, offset))
    for negative_ms, number, offset in sorted(candidates):
        if greatest is not None and greatest[1] >= -negative_ms:
            break
        # The batch may have no records left.
        segment = segments[number]
        found = _greatest_of(segment, segment.find(offset), start_offset, effort)
        if found is not None and (greatest is None or found[1] > greatest[1]):
            greatest = found
    return greatest


def _greatest_from(segment: Segment, start_offset: int, effort: Effort) -> Position | None:
    """The record with the greatest timestamp after the start of a log inside the segment.

    Differs from Kafka: it answers with records that DeleteRecords has taken away.
    """
    first = segment.find(start_offset)
    if first is None:
        return None
    greatest = _greatest_of(segment, first, start_offset, effort)
    youngest: FoundBatch | None = None
    for header in iterate_headers(
        segment.handle.use(), first.position + first.size, segment.size, chunk_bytes=1 << 14
    ):
        effort.on_header()
        if header.max_timestamp_ms > (-1 if youngest is None else youngest.max_timestamp_ms):
            youngest = header
    if youngest is None or (greatest is not None and greatest[1] >= youngest.max_timestamp_ms):
        return greatest
    return _greatest_of(segment, youngest, 0, effort)


def _greatest_of(
    segment: Segment, header: FoundBatch | None, start_offset: int, effort: Effort
) -> Position | None:
    if header is None:
        return None
    greatest: Position | None = None
    for record in decode_records(_whole(segment, header, effort)):
        if record.offset >= start_offset and record.timestamp_ms > (
            -1 if greatest is None else greatest[1]
        ):
            greatest = record.offset, record.timestamp_ms, header.leader_epoch
    return greatest


def aborted_transactions(log: Log, start_offset: int, up_to_offset: int) -> list[tuple[int, int]]:
    """`Log.aborted_transactions`."""
    found: list[tuple[int, int]] = []
    with damage_reported(log):
        for segment in islice(log.segments, log.segment_number(start_offset), None):
            more, is_all = segment.txn_index.overlapping(start_offset, up_to_offset)
            found += more
            if is_all:
                break
    return found
