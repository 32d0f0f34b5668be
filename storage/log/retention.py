"""Deletes the segments that retention does not keep: by log start offset, by size, by age.

The three plans look at segments one after the other, and at none after the first that stays: to
know a segment's times, a file may have to be read.

Source: Kafka's UnifiedLog.deleteOldSegments; KIP-107.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.storage.events import summary
from odradek.storage.log.log import Log, RemovedFiles
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


def delete_old_segments(log: Log, *, now_ms: int, count_max: int = 1 << 32) -> list[RemovedFiles]:
    """Take segments out of a log that retention does not keep.

    count_max  segments at most; further ones are due at the next call
    returns    their files, which were renamed, and when to remove these
    raises     OSError; the segments renamed so far are not in the log any more.  IndexUnready,
               CorruptBatch
    cost       40 us a segment
    """
    removed: list[RemovedFiles] = []
    if log.is_offline or log.is_truncating:
        return removed
    count = plan_log_start_deletion(_old_segments(log, count_max), log.log_start_offset)
    if count:
        reason = f"the log's start is {log.log_start_offset}"
        removed.append(_delete_oldest(log, count, now_ms, reason))
        count_max -= count
    config = log.config
    if not config.cleanup_delete:
        return removed
    if config.retention_bytes >= 0:
        old, size_bytes = _old_segments(log, count_max), log.segments.size_bytes()
        count = plan_size_deletion(old, config, log.high_watermark, size_bytes)
        if count:
            reason = f"retention.bytes is {config.retention_bytes}"
            removed.append(_delete_oldest(log, count, now_ms, reason))
            count_max -= count
    if config.retention_ms >= 0:
        old = _old_segments(log, count_max, with_times=True)
        count = plan_age_deletion(old, config, log.high_watermark, now_ms)
        if count:
            reason = f"retention.ms is {config.retention_ms}"
            removed.append(_delete_oldest(log, count, now_ms, reason))
    return removed


def _old_segments(log: Log, count_max: int, *, with_times: bool = False) -> Iterator[OldSegment]:
    """The oldest first; the time of a segment is read when the plan reaches it."""
    segments = log.segments
    last = len(segments) - 1
    for number in range(min(count_max, last + 1)):
        segment = segments[number]
        yield OldSegment(
            segment.size,
            log.end_offset if number == last else segments.base_offsets[number + 1],
            segment.largest_timestamp_or_change_ms() if with_times else 0,
            number == last,
        )


def _delete_oldest(log: Log, count: int, now_ms: int, reason: str) -> RemovedFiles:
    """Take the oldest segments out; at least one segment stays."""
    segments = log.segments
    if count == len(segments):
        log.roll(now_ms=now_ms)
    assert count < len(segments), "a log without a segment"
    size = sum(segment.size for segment in segments[:count])
    bases, end_offset = segments.base_offsets[:count], segments.base_offsets[count]
    log.advance_log_start(end_offset)
    paths: list[str] = []
    for base_offset in bases:
        segments.remove_first(paths)
        # A snapshot without its segment is removed by the next start.
        with contextlib.suppress(OSError):
            log.head.snapshots.rename_to_deleted(base_offset, paths)
    log.report(
        f"{count} segments with {size} bytes below offset {end_offset} are deleted, {reason}: "
        f"{summary(bases)}"
    )
    return RemovedFiles(tuple(paths), now_ms + log.config.file_delete_delay_ms)
