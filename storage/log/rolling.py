"""When the active segment is rolled: sizes, ages and limits, no files.

`roll_reason` is exact and costs 3 us.  For most batches four comparisons with `RollLimits` show
that no reason applies.

Source: Kafka's LogSegment.shouldRoll.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from odradek.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.log_config import LogConfig
from odradek.storage.segments.segment import Segment

# Differs from Kafka: index.interval.bytes counts up to here, since a lookup walks over as much.
INDEX_INTERVAL_MAX_BYTES: Final = 32 << 10
"""537 batches of the least size."""
NO_BATCH_FITS: Final = -(1 << 62)
"""A limit below every batch: `roll_reason` decides."""
_FLUSH_INDEXES_EVERY: Final = 256
"""Index entries."""


class RollReason(StrEnum):
    """Why a segment is rolled."""

    SIZE = "size"
    AGE = "age"
    INDEX_FULL = "index full"
    OFFSET_RANGE = "offset range"


class SegmentStats(NamedTuple):
    """The active segment."""

    base_offset: int
    size_bytes: int
    first_timestamp_ms: int
    """Greatest timestamp of its first batch; -1 when it has none."""
    created_ms: int
    """When it was created, or loaded."""
    jitter_ms: int
    is_index_full: bool


class NextBatch(NamedTuple):
    """What is about to be appended."""

    size_bytes: int
    last_offset: int
    max_timestamp_ms: int
    """-1 when it has none."""


def roll_reason(
    stats: SegmentStats, config: LogConfig, batch: NextBatch, now_ms: int
) -> RollReason | None:
    """Why the segment must be rolled before this batch, or None.

    The age is counted in timestamps of batches: from that of the first batch to that of the next;
    only when the first batch has none, from the creation of the segment to now.
    """
    assert batch.size_bytes > 0, "an empty batch was to be appended"
    if batch.last_offset - stats.base_offset > RELATIVE_OFFSET_MAX:
        return RollReason.OFFSET_RANGE
    if stats.size_bytes == 0:
        return None
    if stats.size_bytes + batch.size_bytes > config.segment_bytes:
        return RollReason.SIZE
    if stats.first_timestamp_ms >= 0:
        age_ms = batch.max_timestamp_ms - stats.first_timestamp_ms
    else:
        age_ms = now_ms - stats.created_ms
    if age_ms > config.segment_age_max_ms - stats.jitter_ms:
        return RollReason.AGE
    return RollReason.INDEX_FULL if stats.is_index_full else None


def roll_jitter_ms(config: LogConfig, topic: str, partition: int, base_offset: int) -> int:
    """What is subtracted from segment.ms for one segment, so that not all are rolled at once.

    It depends on the segment's name only: a restart does not change it.
    """
    limit_ms = min(config.segment_jitter_ms, config.segment_ms)
    if limit_ms <= 0:
        return 0
    seed = 0
    for byte in f"{topic}-{partition}/{base_offset}".encode():
        seed = (seed * 31 + byte) & 0x7FFF_FFFF
    return seed % limit_ms


class RollLimits:
    """How far the active segment may be appended to without `roll_reason`.

    `update` after every change of the active segment's state, of the settings, or of whether the
    log is closed for appends: offline, or being truncated.
    """

    __slots__ = ("age_ms", "entries_left", "index_interval_bytes", "offset", "size_bytes")

    size_bytes: int
    """How large the segment may become; `NO_BATCH_FITS` while `roll_reason` must decide."""
    age_ms: int
    """Greatest timestamp that a batch may have."""
    offset: int
    """Greatest last offset that a batch may have."""
    entries_left: int
    """Index entries that may be made."""
    index_interval_bytes: int

    def update(
        self, segment: Segment, config: LogConfig, *, jitter_ms: int, is_closed: bool
    ) -> None:
        """Compute all limits; a log that is closed for appends has none below them."""
        self.offset = segment.base_offset + RELATIVE_OFFSET_MAX
        self.age_ms = segment.first_timestamp_ms + config.segment_age_max_ms - jitter_ms
        self.index_interval_bytes = min(config.index_interval_bytes, INDEX_INTERVAL_MAX_BYTES)
        self.entries_left = segment.index_entries_left(config) if segment.is_ready else 0
        self.size_bytes = config.segment_bytes
        # The first batch determines the age; without a timestamp the clock does.
        has_no_age = segment.size == 0 or segment.first_timestamp_ms < 0
        if is_closed or has_no_age or self.entries_left <= 0:
            self.size_bytes = NO_BATCH_FITS

    def allow(
        self, segment_bytes: int, last_offset: int, max_timestamp_ms: int, waiting_count: int
    ) -> bool:
        """Whether a batch certainly fits; False: `roll_reason` must decide.

        segment_bytes  size of the segment with the batch and those that wait before it
        waiting_count  of those that wait, each of which may make an index entry
        """
        return (
            segment_bytes <= self.size_bytes
            and max_timestamp_ms <= self.age_ms
            and last_offset <= self.offset
            and waiting_count < self.entries_left
        )

    def count_index_entry(self) -> bool:
        """Account for an index entry; whether indexes and limits must be looked at now."""
        self.entries_left -= 1
        return self.entries_left <= 0 or self.entries_left % _FLUSH_INDEXES_EVERY == 0
