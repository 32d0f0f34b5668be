"""Reads that are not at the end of a log: by offset, by time, and aborted transactions.

Functions over the segments of a log and its head; all raise CorruptBatch when a segment is damaged.

Source: Kafka's LocalLog.read, LogSegment.read, LogSegment.findOffsetByTimestamp,
UnifiedLog.fetchOffsetByTimestamp, TransactionIndex.collectAbortedTxns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from odradek.protocol.records.batch import BATCH_OVERHEAD, MAGIC, RecordBatch
from odradek.protocol.records.record import record_times
from odradek.protocol.records.timestamps import first_record_at_or_after
from odradek.storage.files.batch_scan import CorruptBatch, FoundBatch, iterate_headers
from odradek.storage.files.descriptors import FileSlice
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.log.head import Head
from odradek.storage.log.lookup_budget import LookupBudget, too_long_if_limited
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segments import Segments


class RecordPosition(NamedTuple):
    """Where a record is, and its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def read(
    head: Head, start_offset: int, max_bytes: int, up_to_offset: int, at_least_one: bool
) -> FileSlice | None:
    """`Log.read` for an offset that is not among the newest batches."""
    if start_offset >= up_to_offset or start_offset >= head.end_offset:
        return None
    place = _find(head, start_offset)
    if place is None:
        return None
    segment, position, first_bytes = place
    end_position = _end_position(head, segment, up_to_offset)
    if position >= end_position:
        return None
    size = end_position - position
    if size > max_bytes:
        size = max_bytes
    if size < first_bytes:
        if not at_least_one:
            return None
        size = first_bytes
    return FileSlice(segment.handle, position, size)


def bytes_between(head: Head, start_offset: int, end_offset: int, max_bytes: int) -> int:
    """`Log.bytes_between`."""
    end_offset = min(end_offset, head.end_offset)
    if start_offset >= end_offset:
        return 0
    place = _find(head, start_offset)
    if place is None:
        return 0
    first, position, _ = place
    total = -position
    segments = head.segments
    for segment in islice(segments, segments.number_of(first.base_offset), None):
        end_position = _end_position(head, segment, end_offset)
        total += end_position
        if total >= max_bytes or end_position < segment.size:
            break
    return min(max(total, 0), max_bytes)


def _find(head: Head, offset: int) -> tuple[Segment, int, int] | None:
    """(segment, position, size) of the first batch whose last offset is >= `offset`."""
    segments = head.segments
    # A compacted segment may end before the next one begins.
    for segment in islice(segments, segments.number_of(offset), None):
        place = _find_within(head, segment, offset)
        if place is not None:
            return segment, *place
    return None


def _find_within(head: Head, segment: Segment, offset: int) -> tuple[int, int] | None:
    if segment is head.segments.active:
        place = head.tail.find(offset, segment.size)
        if place is not None:
            return place if place[1] else None
    batch = segment.find(offset)
    return None if batch is None else (batch.position, batch.size)


def _end_position(head: Head, segment: Segment, up_to_offset: int) -> int:
    """Where reading must end in a segment: at the first batch whose last offset is >= it."""
    segments = head.segments
    if segment is segments.active:
        end_offset = head.end_offset
    else:
        end_offset = segments.base_offsets[segments.number_of(segment.base_offset) + 1]
    if up_to_offset >= end_offset:
        return segment.size
    if up_to_offset <= segment.base_offset:
        return 0
    place = _find_within(head, segment, up_to_offset)
    return segment.size if place is None else place[0]


def search_by_time(
    segments: Sequence[Segment], start_offset: int, timestamp_ms: int, budget: LookupBudget
) -> RecordPosition | None:
    """The first record whose timestamp is >= `timestamp_ms`.

    segments      of a log, from the one on that contains `start_offset`
    start_offset  log start offset; earlier records do not count
    raises        TooLong; IndexUnready; CorruptBatch; BrokerError INVALID_RECORD; OSError
    """
    for segment in segments:
        if not segment.is_time_known():
            budget.on_read()
        if segment.largest_timestamp()[0] < timestamp_ms:
            continue
        record = _search(segment, timestamp_ms, start_offset, budget)
        if record is not None:
            return record
    return None


def _search(
    segment: Segment, timestamp_ms: int, start_offset: int, budget: LookupBudget
) -> RecordPosition | None:
    first = segment.find_by_time(timestamp_ms)
    if first is not None and first.last_offset < start_offset:
        first = segment.find(start_offset)
    if first is None:
        return None
    # The first batch contains it, unless the log starts after its last record that is young enough,
    # or compaction has removed that.
    for header in iterate_headers(segment.handle.use(), first.position, segment.size):
        budget.on_header()
        if header.max_timestamp_ms < timestamp_ms:
            continue
        batch = _whole(segment, header, budget)
        with too_long_if_limited(budget):
            record = first_record_at_or_after(
                batch,
                timestamp_ms,
                from_offset=start_offset,
                output_bytes_max=budget.output_bytes_max,
            )
        if record is not None:
            return RecordPosition(record.offset, record.timestamp_ms, header.leader_epoch)
    return None


def _whole(segment: Segment, header: FoundBatch, budget: LookupBudget) -> RecordBatch:
    if header.magic != MAGIC:
        raise CorruptBatch(f"format version {header.magic} at position {header.position}")
    file = segment.handle.use()
    head = RecordBatch(memoryview(file.read_at(header.position, BATCH_OVERHEAD)))
    budget.on_batch(head)
    data = file.read_at(header.position, header.size)
    if len(data) != header.size:
        raise CorruptBatch(f"the batch at position {header.position} is cut short")
    return RecordBatch(memoryview(data))


def search_greatest(
    segments: Sequence[Segment], start_offset: int, budget: LookupBudget
) -> RecordPosition | None:
    """The first record with the greatest timestamp.

    segments, start_offset, raises  as `search_by_time`
    """
    greatest: RecordPosition | None = None
    candidates: list[tuple[int, int, int]] = []
    for number, segment in enumerate(segments):
        if not segment.is_time_known():
            budget.on_read()
        timestamp_ms, offset = segment.largest_timestamp()
        if timestamp_ms < 0:
            continue
        if segment.base_offset < start_offset:
            newest = segment.find(offset)
            if newest is None or newest.base_offset < start_offset:
                # It was deleted; no index contains the greatest one of the rest.
                greatest = _greatest_from(segment, start_offset, budget)
                continue
        candidates.append((-timestamp_ms, number, offset))
    for negative_ms, number, offset in sorted(candidates):
        if greatest is not None and greatest[1] >= -negative_ms:
            break
        # The batch may have no records left.
        segment = segments[number]
        record = _greatest_of(segment, segment.find(offset), start_offset, budget)
        if record is not None and (greatest is None or record[1] > greatest[1]):
            greatest = record
    return greatest


def _greatest_from(
    segment: Segment, start_offset: int, budget: LookupBudget
) -> RecordPosition | None:
    """The record with the greatest timestamp, where the log starts inside the segment.

    Differs from Kafka: it returns records below the log start offset.
    """
    first = segment.find(start_offset)
    if first is None:
        return None
    greatest = _greatest_of(segment, first, start_offset, budget)
    youngest: FoundBatch | None = None
    for header in iterate_headers(
        segment.handle.use(), first.position + first.size, segment.size, chunk_bytes=1 << 14
    ):
        budget.on_header()
        if header.max_timestamp_ms > (-1 if youngest is None else youngest.max_timestamp_ms):
            youngest = header
    if youngest is None or (greatest is not None and greatest[1] >= youngest.max_timestamp_ms):
        return greatest
    return _greatest_of(segment, youngest, 0, budget)


def _greatest_of(
    segment: Segment, header: FoundBatch | None, start_offset: int, budget: LookupBudget
) -> RecordPosition | None:
    if header is None:
        return None
    greatest: RecordPosition | None = None
    batch = _whole(segment, header, budget)
    with too_long_if_limited(budget):
        for offset, timestamp_ms in record_times(batch, output_bytes_max=budget.output_bytes_max):
            if offset >= start_offset and timestamp_ms > (-1 if greatest is None else greatest[1]):
                greatest = RecordPosition(offset, timestamp_ms, header.leader_epoch)
    return greatest


def bound_of(segments: Segments, start_offset: int, records: FileSlice, end_offset: int) -> int:
    """An offset after the records that were read from `start_offset` on.

    Exact where a segment ends, else up to an index interval too large.
    end_offset  of the log
    """
    bases = segments.base_offsets
    first = segments.number_of(start_offset)
    for number, segment in enumerate(islice(segments, first, None), start=first):
        following = bases[number + 1] if number + 1 < len(bases) else end_offset
        if records.is_of(segment.handle):
            try:
                bound = segment.bound_after(records.position + len(records))
            except IndexUnready:
                return following
            return following if bound is None else bound
    return end_offset


def aborted_transactions(
    segments: Segments, start_offset: int, up_to_offset: int
) -> list[tuple[int, int]]:
    """`Log.aborted_transactions`."""
    transactions: list[tuple[int, int]] = []
    for segment in islice(segments, segments.number_of(start_offset), None):
        more, is_all = segment.aborted.overlapping(start_offset, up_to_offset)
        transactions += more
        if is_all:
            break
    return transactions


def aborts_after(segments: Segments, offset: int) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that begin below `offset` and whose marker is after it.

    offset  base offset of a segment, at most the last stable offset
    raises  OSError; CorruptBatch
    source  Kafka's UnifiedLog.collectAbortedTransactions
    """
    transactions = []
    for segment in islice(segments, segments.number_of(offset), None):
        for entry in segment.aborted.from_marker(offset):
            if entry.first_offset < offset:
                transactions.append(entry)
            if entry.last_stable_offset >= offset:
                # Everything before `offset` was stable then: later ones begin after it.
                return tuple(transactions)
    return tuple(transactions)
