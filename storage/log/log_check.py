"""The invariants of a log, for tests and the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.storage.files.batch_scan import FoundBatch, iterate_headers
from odradek.storage.indexes.time_index import NO_TIMESTAMP
from odradek.storage.segments.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log.log import Log


def check(log: Log) -> None:
    """Assert them, reading all headers."""
    is_empty = log.size_bytes() == 0
    assert is_empty or log.log_start_offset <= log.end_offset, "the start lies behind the end"
    assert log.base_offsets[0] <= log.log_start_offset, "the start lies before all segments"
    assert log.log_start_offset <= log.high_watermark, "the high watermark is below the start"
    assert is_empty or log.high_watermark <= log.end_offset, "the high watermark is beyond the end"
    assert log.recovery_point <= log.end_offset, "the recovery point lies behind the end"
    assert log.base_offsets == [segment.base_offset for segment in log.segments]
    assert log.base_offsets == sorted(set(log.base_offsets)), "segments do not ascend"
    assert log.segments[-1] is log.active, "the last segment is in use"
    bounds = [*log.base_offsets[1:], log.end_offset]
    former_epoch = -1
    for segment, end_offset in zip(log.segments, bounds, strict=True):
        last = _check_segment(segment)
        if last is not None:
            assert last.last_offset < end_offset, "a batch crosses a segment"
            assert last.leader_epoch >= former_epoch, "leader epochs fall"
            former_epoch = last.leader_epoch
    for entry in log.leader_epochs.entries:
        assert entry.start_offset <= log.end_offset, "an epoch starts behind the end"
    assert log.producer_states.last_map_offset == log.end_offset, "the producer state lags"
    log.producer_states.check()


def _check_segment(segment: Segment) -> FoundBatch | None:
    """The invariants of its indexes against the file; returns the last batch."""
    batches = list(iterate_headers(segment.handle.use(), 0, segment.size))
    starts = {found.position: found for found in batches}
    former = segment.base_offset - 1
    for found in batches:
        assert found.base_offset > former, "offsets do not rise"
        former = found.last_offset
    segment.load_indexes()
    offsets, times = segment.indexes.offsets, segment.indexes.times
    for number in range(len(offsets)):
        last_offset, position = offsets.entry(number)
        assert starts[position].last_offset == last_offset, "an index entry points elsewhere"
    ends = {found.last_offset: found.max_timestamp_ms for found in batches}
    for number in range(len(times)):
        timestamp_ms, offset = times.entry(number)
        assert ends[offset] == timestamp_ms, "a time index entry points elsewhere"
    greatest = max((found.max_timestamp_ms for found in batches), default=NO_TIMESTAMP)
    assert segment.largest_timestamp()[0] == greatest, "the greatest timestamp is another one"
    return batches[-1] if batches else None
