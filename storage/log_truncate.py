"""Cutting a log: at its end (a follower that diverged), at its start (DeleteRecords), retention.

Files that retention takes out are renamed to `.deleted` and removed later; what a truncation cuts
off is removed at once, the newest first, so that a crash leaves no hole.

Source: Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt, maybeIncrementLogStartOffset,
deleteOldSegments; LocalLog.removeAndDeleteSegments.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage import names
from storage.batch_scan import CorruptBatch
from storage.log_append import ensure_ready, roll
from storage.plan import (
    OldSegment,
    plan_age_deletion,
    plan_log_start_deletion,
    plan_size_deletion,
)
from storage.replay import replay
from storage.segment import Segment

if TYPE_CHECKING:
    from storage.log import Log


@dataclass(frozen=True, slots=True)
class RemovedFiles:
    """Files that nothing uses any more, under names that the next start would remove too."""

    paths: tuple[str, ...]
    remove_at_ms: int
    """file.delete.delay.ms after they were set aside."""


def advance_log_start(log: Log, offset: int) -> None:
    """`Log.advance_log_start`."""
    assert offset <= log.end_offset, "the start would lie behind the end"
    if offset <= log.log_start_offset:
        return
    log.log_start_offset = offset
    if log.leader_epochs.truncate_from_start(offset):
        log.write_epochs()
    log.producer_states.truncate_head(offset)


def delete_old_segments(log: Log, now_ms: int, high_watermark: int) -> list[RemovedFiles]:
    """`Log.delete_old_segments`: by the start of the log, by size, by age."""
    if log.is_offline:
        return []
    removed = []
    count = plan_log_start_deletion(_old_segments(log, with_times=False), log.log_start_offset)
    if count:
        removed.append(_delete(log, count, now_ms))
    config = log.config
    if not config.cleanup_delete:
        return removed
    if config.retention_bytes >= 0:
        old = _old_segments(log, with_times=False)
        count = plan_size_deletion(old, config, high_watermark)
        if count:
            removed.append(_delete(log, count, now_ms))
    if config.retention_ms >= 0:
        old = _old_segments(log, with_times=True)
        count = plan_age_deletion(old, config, high_watermark, now_ms)
        if count:
            removed.append(_delete(log, count, now_ms))
    return removed


def _old_segments(log: Log, *, with_times: bool) -> list[OldSegment]:
    ends = [*log.base_offsets[1:], log.end_offset]
    return [
        OldSegment(
            segment.size,
            end_offset,
            segment.largest_timestamp_or_change_ms() if with_times else 0,
            segment is log.active,
        )
        for segment, end_offset in zip(log.segments, ends, strict=True)
    ]


def _delete(log: Log, count: int, now_ms: int) -> RemovedFiles:
    """Take out the oldest segments; there is always one left."""
    if count == len(log.segments):
        roll(log, log.end_offset, now_ms)
    assert count < len(log.segments), "a log without a segment"
    advance_log_start(log, log.base_offsets[count])
    files = log.shared.files
    paths: list[str] = []
    for segment in log.segments[:count]:
        log_path, *others = reversed(segment.existing_paths())
        files.rename(log_path, log_path + names.DELETED)
        paths.append(log_path + names.DELETED)
        segment.drop()
        del log.segments[0], log.base_offsets[0]
        # Without their .log file they are nothing: the next start removes what stays behind here.
        with contextlib.suppress(OSError):
            for path in others:
                files.rename(path, path + names.DELETED)
                paths.append(path + names.DELETED)
            snapshot = log.snapshots.set_aside(segment.base_offset)
            if snapshot is not None:
                paths.append(snapshot)
    return RemovedFiles(tuple(paths), now_ms + log.config.file_delete_delay_ms)


def truncate_to(log: Log, offset: int, now_ms: int) -> bool:
    """`Log.truncate_to`."""
    assert offset >= 0, "an offset is not negative"
    if offset >= log.end_offset:
        # There may be an epoch at the end that has no batch yet and that the leader does not know.
        if log.leader_epochs.truncate_from_end(offset):
            log.write_epochs()
        return False
    if offset < log.first_base_offset:
        truncate_fully(log, offset, None, now_ms)
        return True
    log.cut_count += 1
    try:
        _cut_segments(log, offset, now_ms)
        log.log_start_offset = min(log.log_start_offset, log.end_offset)
        if log.leader_epochs.truncate_from_end(log.end_offset):
            log.write_epochs()
        _restore_producers(log, now_ms)
    except (OSError, CorruptBatch):
        go_offline(log)
        raise
    return True


def go_offline(log: Log) -> None:
    """The disk has failed within a change of files: what is there is for the next start."""
    log.is_offline = True
    log.update_limits()


def _cut_segments(log: Log, offset: int, now_ms: int) -> None:
    while log.base_offsets[-1] > offset:
        _remove_last_segment(log)
        log.active = log.segments[-1]
    active = log.active
    found = active.find(offset)
    if found is not None:
        active.truncate(found, now_ms)
        log.end_offset = min(found.base_offset, offset)
    else:
        # The batches end before `offset`; offsets between were compacted away.
        log.end_offset = offset
    _note_end(log)
    ensure_ready(log)


def _note_end(log: Log) -> None:
    """After a cut: what is known of the end, and up to where everything is on disk.

    The segment in use must be checked after a crash, so it has to hold the recovery point.
    """
    end_offset, base_offset = log.end_offset, log.active.base_offset
    log.tail.reset(end_offset)
    flushed_to = end_offset - 1 if end_offset > base_offset else end_offset
    log.recovery_point = min(log.recovery_point, flushed_to)
    log.flush_begun_at = (min(log.flush_begun_at[0], end_offset), base_offset)
    log.is_past_unsynced = True
    log.update_limits()


def _remove_last_segment(log: Log) -> None:
    segment = log.segments[-1]
    paths = segment.existing_paths()
    segment.drop()
    for path in reversed(paths):
        log.shared.files.remove(path)
    log.segments.pop()
    log.base_offsets.pop()


def _restore_producers(log: Log, now_ms: int) -> None:
    log.snapshots.remove_above(log.end_offset)
    states = log.producer_states
    if not states.truncate_tail(log.end_offset):
        states.last_map_offset = log.end_offset
        return
    states.reset(log.first_base_offset)
    log.snapshots.load_newest(
        states,
        log.end_offset,
        now_ms=now_ms,
        expiration_ms=log.config.producer_id_expiration_ms,
    )
    replay(log.segments, states, log.end_offset)


def truncate_fully(log: Log, offset: int, log_start_offset: int | None, now_ms: int) -> None:
    """`Log.truncate_fully_and_start_at`."""
    assert offset >= 0, "an offset is not negative"
    log.cut_count += 1
    try:
        while log.segments:
            _remove_last_segment(log)
        log.snapshots.remove_all()
        segment = Segment.create(log.shared, log.directory, offset, created_ms=now_ms)
    except OSError:
        go_offline(log)
        raise
    log.segments.append(segment)
    log.base_offsets.append(offset)
    log.active = segment
    log.end_offset = offset
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    log.producer_states.reset(offset)
    log.leader_epochs.clear()
    log.write_epochs()
    _note_end(log)
    log.recovery_point = min(log.recovery_point, offset)
