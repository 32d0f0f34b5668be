"""Which segments retention deletes: sizes, times and offsets, no files.

The three plans look at segments one after the other, and at none after the first that stays: to
know a segment's times, a file may have to be read.

Source: Kafka's UnifiedLog.deleteOldSegments; KIP-107.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.storage.log_config import LogConfig


class OldSegment(NamedTuple):
    """A segment that may be deleted."""

    size_bytes: int
    end_offset: int
    """Exclusive: base offset of the next segment, or the log end offset."""
    largest_timestamp_ms: int
    """The modification time of the file when no record has a timestamp."""
    is_active: bool


def plan_log_start_deletion(segments: Iterable[OldSegment], log_start_offset: int) -> int:
    """How many segments, oldest first, are completely below the log start offset."""
    count = 0
    for segment in segments:
        if segment.is_active or segment.end_offset > log_start_offset:
            break
        count += 1
    return count


def plan_size_deletion(
    segments: Iterable[OldSegment], config: LogConfig, high_watermark: int, size_bytes: int
) -> int:
    """How many segments, oldest first, exceed retention.bytes.

    size_bytes  of all segments
    """
    excess = size_bytes - config.retention_bytes
    if config.retention_bytes < 0 or excess < 0:
        return 0
    count = 0
    for segment in segments:
        if excess < segment.size_bytes or not _is_deletable(segment, high_watermark):
            break
        excess -= segment.size_bytes
        count += 1
    return count


def plan_age_deletion(
    segments: Iterable[OldSegment], config: LogConfig, high_watermark: int, now_ms: int
) -> int:
    """How many segments, oldest first, contain no record younger than retention.ms."""
    if config.retention_ms < 0:
        return 0
    count = 0
    for segment in segments:
        age_ms = now_ms - segment.largest_timestamp_ms
        if age_ms <= config.retention_ms or not _is_deletable(segment, high_watermark):
            break
        count += 1
    return count


def _is_deletable(segment: OldSegment, high_watermark: int) -> bool:
    """Whether it ends at or below the high watermark, and is not an empty active segment."""
    return segment.end_offset <= high_watermark and not (
        segment.is_active and segment.size_bytes == 0
    )
