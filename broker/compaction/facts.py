"""The facts of a log by which the next log to clean is chosen, and the job for the chosen log.

Sizes and base offsets are in memory.  Times of closed segments are read from disk, each once, and
only for topics that set min.compaction.lag.ms or max.compaction.lag.ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.storage.compaction.candidates import (
    NO_LIMIT_MS,
    Candidate,
    LogFacts,
    SegmentTimes,
    first_dirty_number,
    first_dirty_offset,
)
from odradek.storage.compaction.job import CleaningJob, active_producers
from odradek.storage.compaction.offset_map import ENTRY_BYTES
from odradek.storage.files.batch_scan import iterate_headers
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborts_after
from odradek.storage.segments.segment import Segment

NO_TIME: Final = -1
HEADER_BYTES: Final = 128


class ClosedSegmentTimes:
    """The times of closed segments, those of a log from one call of `times` to the next."""

    def __init__(self) -> None:
        self._known: dict[Log, dict[tuple[int, int], SegmentTimes]] = {}

    def times(self, log: Log, first_number: int) -> tuple[SegmentTimes, ...]:
        """The times of the closed segments from number `first_number` on.

        raises  OSError; CorruptBatch
        """
        former = self._known.get(log, {})
        current: dict[tuple[int, int], SegmentTimes] = {}
        for segment in log.segments[first_number:-1]:
            # A truncation may have brought another segment of the same base.
            key = (segment.base_offset, segment.size)
            current[key] = former.get(key) or _times_of(segment)
        self._known[log] = current
        return tuple(current.values())

    def read_ahead(self, log: Log, first_number: int) -> Iterator[None]:
        """Have `times` read no file when it is called next: one segment is read in each step.

        The log may change between steps.
        raises  OSError; CorruptBatch
        """
        segment_times = self._known.setdefault(log, {})
        for segment in log.segments[first_number:-1]:
            key = (segment.base_offset, segment.size)
            if key not in segment_times:
                segment_times[key] = _times_of(segment)
                yield

    def keep_only(self, logs: set[Log]) -> None:
        """Forget all other logs."""
        for log in [log for log in self._known if log not in logs]:
            del self._known[log]


def _times_of(segment: Segment) -> SegmentTimes:
    first_ms = NO_TIME
    for header in iterate_headers(segment.handle.use(), 0, segment.size, chunk_bytes=HEADER_BYTES):
        first_ms = header.max_timestamp_ms
        break
    return SegmentTimes(first_ms, segment.largest_timestamp_or_change_ms())


def has_dirty_segment(log: Log, checkpoint_offset: int | None) -> bool:
    """Whether there can be anything to clean.

    cost  1 us
    """
    dirty_offset = first_dirty_offset(checkpoint_offset, log.log_start_offset, log.end_offset)
    return log.segments.base_offsets[-1] > dirty_offset


def _needs_times(log: Log) -> bool:
    config = log.config
    return config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < NO_LIMIT_MS


def _first_dirty_number(log: Log, checkpoint_offset: int | None) -> int:
    dirty_offset = first_dirty_offset(checkpoint_offset, log.log_start_offset, log.end_offset)
    return first_dirty_number(log.segments.base_offsets, dirty_offset)


def read_times_ahead(
    log: Log, checkpoint_offset: int | None, closed_times: ClosedSegmentTimes
) -> Iterator[None]:
    """Read what `facts_of` would read from disk, in steps of 0.1 ms.

    raises  OSError; CorruptBatch
    """
    if _needs_times(log) and has_dirty_segment(log, checkpoint_offset):
        yield from closed_times.read_ahead(log, _first_dirty_number(log, checkpoint_offset))


def facts_of(
    log: Log,
    checkpoint_offset: int | None,
    last_stable_offset: int,
    closed_times: ClosedSegmentTimes,
) -> LogFacts:
    """The facts of one log, for `candidates.judge`.

    raises  OSError; CorruptBatch
    """
    config = log.config
    times: tuple[SegmentTimes, ...] = ()
    if _needs_times(log):
        times = closed_times.times(log, _first_dirty_number(log, checkpoint_offset))
    return LogFacts(
        checkpoint_offset=checkpoint_offset,
        log_start_offset=log.log_start_offset,
        end_offset=log.end_offset,
        last_stable_offset=last_stable_offset,
        base_offsets=log.segments.base_offsets,
        segment_sizes=[segment.size for segment in log.segments],
        dirty_times=times,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )


def job_of(log: Log, candidate: Candidate, settings: BrokerSettings, now_ms: int) -> CleaningJob:
    """The job that is sent to the worker.

    raises  OSError; CorruptBatch
    """
    config = log.config
    end_offset = candidate.first_uncleanable_offset
    return CleaningJob(
        directory=log.directory,
        base_offsets=tuple(base for base in log.segments.base_offsets if base < end_offset),
        log_start_offset=log.log_start_offset,
        first_dirty_offset=candidate.first_dirty_offset,
        first_uncleanable_offset=end_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_message_bytes=config.max_message_bytes,
        map_entries_max=map_entries_max(settings),
        bytes_per_second_max=settings.log_cleaner_io_max_bytes_per_second,
        truncation_count=log.truncation_count,
        later_aborts=aborts_after(log.segments, end_offset),
        active_producers=active_producers(log.producer_states),
    )


def map_entries_max(settings: BrokerSettings) -> int:
    """How many different keys one cleaning may read.

    Differs from Kafka: an entry takes `ENTRY_BYTES` of the buffer, not 24, and the one worker has
    the whole buffer, whatever log.cleaner.threads is.
    """
    usable_bytes = (
        settings.log_cleaner_dedupe_buffer_size * settings.log_cleaner_io_buffer_load_factor
    )
    return max(1, int(usable_bytes) // ENTRY_BYTES)
