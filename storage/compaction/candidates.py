"""Which log is cleaned next, and from where to where: decided from what is known of the logs.

Pure: sizes, bases, times and offsets come in as facts, the caller reads them from logs and clocks.

    |-- cleaned before --|------- dirty, may be cleaned -------|-- not yet --|-- active --|
    log start       first dirty                        first uncleanable           end

The first dirty offset is what the last cleaning has left in the checkpoint.  Not to be touched are
the active segment, what is not stable (an open transaction, a record that is not replicated), and
segments with records younger than min.compaction.lag.ms.

Source: Kafka's LogCleanerManager (grabFilthiestCompactedLog, cleanableOffsets, maxCompactionDelay),
LogToClean; KIP-58, KIP-354.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

NO_LIMIT_MS: Final = 2**63 - 1
"""max.compaction.lag.ms when it is not set."""


@dataclass(frozen=True, slots=True)
class SegmentTimes:
    """Times of a closed segment; -1 where no record has a time."""

    first_timestamp_ms: int
    """Greatest timestamp of its first batch."""
    largest_timestamp_ms: int
    """Greatest timestamp of all; the file's time of change where no record has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What the choice depends on, of one compacted log."""

    checkpoint_offset: int | None
    """Where the last cleaning ended, by the checkpoint."""
    log_start_offset: int
    end_offset: int
    last_stable_offset: int
    """At most the high watermark."""
    base_offsets: Sequence[int]
    """Base offsets of all segments; the last one is the active segment."""
    segment_sizes: Sequence[int]
    """Bytes of all segments, the active one last."""
    dirty_times: Sequence[SegmentTimes] = ()
    """Times of the closed segments from `first_dirty_number` on; for a compaction lag."""
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int

    @property
    def active_base_offset(self) -> int:
        """Base offset of the active segment."""
        return self.base_offsets[-1]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may be cleaned of a log."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """Base of the first segment that must not be touched; at or below the first dirty offset when
    there is nothing to clean."""
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """For how long a record has been due by max.compaction.lag.ms, 0: none is."""
    min_cleanable_dirty_ratio: float

    @property
    def dirty_ratio(self) -> float:
        """Bytes that were never cleaned as a share of what a cleaning would read, 0..1."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is worth a cleaning, by its ratio or by its age."""
        if not self.cleanable_bytes:
            return False
        return self.delay_ms > 0 or self.dirty_ratio > self.min_cleanable_dirty_ratio


def is_checkpoint_void(
    checkpoint_offset: int | None, log_start_offset: int, end_offset: int
) -> bool:
    """Whether the checkpoint names an offset that the log does not have.

    Below the start when retention or DeleteRecords went further; above the end when a crash or a
    truncation removed records that had been cleaned.
    """
    return checkpoint_offset is not None and not (
        log_start_offset <= checkpoint_offset <= end_offset
    )


def first_dirty_offset(
    checkpoint_offset: int | None, log_start_offset: int, end_offset: int
) -> int:
    """Where cleaning goes on; the log's start where nothing or nothing valid is known."""
    if checkpoint_offset is None or is_checkpoint_void(
        checkpoint_offset, log_start_offset, end_offset
    ):
        return log_start_offset
    return checkpoint_offset


def first_dirty_number(base_offsets: Sequence[int], dirty_offset: int) -> int:
    """Index of the segment that holds the first dirty offset."""
    return max(bisect_right(base_offsets, dirty_offset) - 1, 0)


def judge(facts: LogFacts, *, now_ms: int) -> Candidate:
    """What may be cleaned of a log, whether that is worth it or not.

    now_ms  wall time
    """
    bases = facts.base_offsets
    dirty_offset = first_dirty_offset(
        facts.checkpoint_offset, facts.log_start_offset, facts.end_offset
    )
    dirty_number = first_dirty_number(bases, dirty_offset)
    end_offset = max(dirty_offset, _uncleanable_offset(facts, dirty_number, now_ms))
    end_number = min(first_dirty_number(bases, end_offset), len(bases) - 1)
    uncleanable_offset = bases[end_number]
    cleanable_bytes = 0
    if dirty_offset < uncleanable_offset:
        cleanable_bytes = sum(facts.segment_sizes[dirty_number:end_number])
    return Candidate(
        first_dirty_offset=dirty_offset,
        first_uncleanable_offset=uncleanable_offset,
        clean_bytes=sum(facts.segment_sizes[: bisect_left(bases, dirty_offset)]),
        cleanable_bytes=cleanable_bytes,
        delay_ms=_delay_ms(facts, now_ms),
        min_cleanable_dirty_ratio=facts.min_cleanable_dirty_ratio,
    )


def _uncleanable_offset(facts: LogFacts, dirty_number: int, now_ms: int) -> int:
    limit = min(facts.last_stable_offset, facts.active_base_offset)
    if facts.min_compaction_lag_ms <= 0:
        return limit
    youngest_ms = now_ms - facts.min_compaction_lag_ms
    closed_bases = facts.base_offsets[dirty_number:-1]
    for base_offset, times in zip(closed_bases, facts.dirty_times, strict=True):
        if times.largest_timestamp_ms > youngest_ms:
            return min(limit, base_offset)
    return limit


def _delay_ms(facts: LogFacts, now_ms: int) -> int:
    if facts.max_compaction_lag_ms >= NO_LIMIT_MS:
        return 0
    firsts_ms = [times.first_timestamp_ms for times in facts.dirty_times]
    oldest_ms = min((time_ms for time_ms in firsts_ms if time_ms > 0), default=NO_LIMIT_MS)
    return max(now_ms - facts.max_compaction_lag_ms - oldest_ms, 0)


def choose(candidates: Sequence[Candidate]) -> int | None:
    """Number of the one that is due and has the greatest share of dirty bytes, None: none is due.

    Of equals the first one.
    """
    due = [number for number, candidate in enumerate(candidates) if candidate.is_due]
    return max(due, key=lambda number: candidates[number].dirty_ratio, default=None)
