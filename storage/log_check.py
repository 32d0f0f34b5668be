"""The invariants of a log, for tests and the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.log import Log


def check(log: Log) -> None:
    """Assert them, reading all headers."""
    is_empty = log.size_bytes() == 0
    assert is_empty or log.log_start_offset <= log.end_offset, "the start lies behind the end"
    assert log.base_offsets[0] <= log.log_start_offset, "the start lies before all segments"
    assert log.recovery_point <= log.end_offset, "the recovery point lies behind the end"
    assert log.base_offsets == [segment.base_offset for segment in log.segments]
    assert log.base_offsets == sorted(set(log.base_offsets)), "segments do not ascend"
    assert log.segments[-1] is log.active, "the last segment is in use"
    bounds = [*log.base_offsets[1:], log.end_offset]
    former_epoch = -1
    for segment, end_offset in zip(log.segments, bounds, strict=True):
        last = segment.check()
        if last is not None:
            assert last.last_offset < end_offset, "a batch crosses a segment"
            assert last.leader_epoch >= former_epoch, "leader epochs fall"
            former_epoch = last.leader_epoch
    for entry in log.leader_epochs.entries:
        assert entry.start_offset <= log.end_offset, "an epoch starts behind the end"
    assert log.producer_states.last_map_offset == log.end_offset, "the producer state lags"
    log.producer_states.check()
