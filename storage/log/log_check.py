"""The invariants of a log, for tests."""

from __future__ import annotations

from odradek.storage.files.batch_scan import FoundBatch, iterate_headers
from odradek.storage.indexes.time_index import NO_TIMESTAMP
from odradek.storage.log.head import Head
from odradek.storage.segments.index_check import OffsetIndexCheck, TimeIndexCheck
from odradek.storage.segments.segment import Segment


def check(head: Head, *, log_start_offset: int, high_watermark: int, recovery_point: int) -> None:
    """Assert the invariants, reading all headers."""
    segments, end_offset = head.segments, head.end_offset
    bases = segments.base_offsets
    is_empty = segments.size_bytes() == 0
    assert is_empty or log_start_offset <= end_offset, "the start is above the end"
    assert bases[0] <= log_start_offset, "the start is below all segments"
    assert log_start_offset <= high_watermark, "the high watermark is below the start"
    assert is_empty or high_watermark <= end_offset, "the high watermark is above the end"
    assert recovery_point <= end_offset, "the recovery point is above the end"
    assert bases == [segment.base_offset for segment in segments]
    assert bases == sorted(set(bases)), "segments do not ascend"
    assert segments[-1] is segments.active, "the last segment is not the active one"
    former_epoch = -1
    for segment, segment_end in zip(segments, [*bases[1:], end_offset], strict=True):
        last = _check_segment(segment)
        if last is not None:
            assert last.last_offset < segment_end, "a batch crosses a segment"
            assert last.leader_epoch >= former_epoch, "leader epochs fall"
            former_epoch = last.leader_epoch
    for entry in head.leader_epochs.entries:
        assert entry.start_offset <= end_offset, "an epoch starts above the end"
    assert head.producer_states.last_map_offset <= end_offset, "producers above the end"
    head.producer_states.check()


def _check_segment(segment: Segment) -> FoundBatch | None:
    """The invariants of its indexes against the file; returns the last batch."""
    former = segment.base_offset - 1
    segment.load_indexes()
    offsets, times = segment.indexes.offsets, segment.indexes.times
    offset_check, time_check = OffsetIndexCheck(offsets), TimeIndexCheck(times)
    greatest = NO_TIMESTAMP
    last: FoundBatch | None = None
    for batch in iterate_headers(segment.handle.use(), 0, segment.size):
        assert batch.base_offset > former, "offsets do not ascend"
        former = batch.last_offset
        offset_check.note(batch)
        time_check.note(batch)
        greatest = max(greatest, batch.max_timestamp_ms)
        last = batch
    assert offset_check.finish() is None, offset_check.flaw
    assert time_check.finish(is_complete=False) is None, time_check.flaw
    assert segment.largest_timestamp()[0] == greatest, "the greatest timestamp is another one"
    return last
