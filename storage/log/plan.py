"""When a segment is closed and when it is deleted: sizes, ages and limits, no files.

Source: Kafka's LogSegment.shouldRoll, UnifiedLog.deleteOldSegments; KIP-107.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from odradek.storage.log_config import LogConfig

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""Indexes hold offsets relative to the base of their segment in 31 bits."""


class RollReason(StrEnum):
    """Why a segment is closed."""

    SIZE = "size"
    AGE = "age"
    INDEX_FULL = "index full"
    OFFSET_RANGE = "offset range"


class RetentionReason(StrEnum):
    """Why a segment is deleted."""

    LOG_START = "before the start of the log"
    SIZE = "retention.bytes"
    AGE = "retention.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStats:
    """The segment in use."""

    base_offset: int
    size_bytes: int
    first_timestamp_ms: int
    """Greatest timestamp of its first batch; -1 when it has none."""
    created_ms: int
    """When it was made, or loaded."""
    jitter_ms: int
    is_index_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """What is about to be appended."""

    size_bytes: int
    last_offset: int
    max_timestamp_ms: int
    """-1 when it has none."""


def roll_reason(
    stats: SegmentStats, config: LogConfig, batch: NextBatch, now_ms: int
) -> RollReason | None:
    """Why the segment must be closed before this batch, or None.

    The age is that of the batches: from the first one's time to that of the next; only without
    timestamps it is counted from when the segment was made.
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


def jitter_ms(config: LogConfig, topic: str, partition: int, base_offset: int) -> int:
    """What is taken off segment.ms for one segment, so that not all are closed at once.

    It depends on the segment's name only: the same after a start.
    """
    limit_ms = min(config.segment_jitter_ms, config.segment_ms)
    if limit_ms <= 0:
        return 0
    seed = 0
    for byte in f"{topic}-{partition}/{base_offset}".encode():
        seed = (seed * 31 + byte) & 0x7FFF_FFFF
    return seed % limit_ms


class OldSegment(NamedTuple):
    """A segment that may be deleted."""

    size_bytes: int
    end_offset: int
    """Exclusive: the next one's base, or the end of the log."""
    largest_timestamp_ms: int
    """The file's time of change where no record has one."""
    is_active: bool


# The three plans look at segments one after the other and at none after the first that stays: what
# a segment's times are may have to be read from a file.


def plan_log_start_deletion(segments: Iterable[OldSegment], log_start_offset: int) -> int:
    """How many segments, from the oldest on, are wholly before the start of the log."""
    count = 0
    for segment in segments:
        if segment.is_active or segment.end_offset > log_start_offset:
            break
        count += 1
    return count


def plan_size_deletion(
    segments: Iterable[OldSegment], config: LogConfig, high_watermark: int, size_bytes: int
) -> int:
    """How many segments, from the oldest on, are not needed to keep retention.bytes.

    size_bytes  of all segments
    """
    excess = size_bytes - config.retention_bytes
    if config.retention_bytes < 0 or excess < 0:
        return 0
    count = 0
    for segment in segments:
        if excess < segment.size_bytes or not _may_go(segment, high_watermark):
            break
        excess -= segment.size_bytes
        count += 1
    return count


def plan_age_deletion(
    segments: Iterable[OldSegment], config: LogConfig, high_watermark: int, now_ms: int
) -> int:
    """How many segments, from the oldest on, hold nothing younger than retention.ms."""
    if config.retention_ms < 0:
        return 0
    count = 0
    for segment in segments:
        age_ms = now_ms - segment.largest_timestamp_ms
        if age_ms <= config.retention_ms or not _may_go(segment, high_watermark):
            break
        count += 1
    return count


def _may_go(segment: OldSegment, high_watermark: int) -> bool:
    """Nothing at or after the high watermark goes, and no empty segment in use."""
    return segment.end_offset <= high_watermark and not (
        segment.is_active and segment.size_bytes == 0
    )
