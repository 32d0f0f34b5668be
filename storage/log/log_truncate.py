"""Cutting a log: at its end (a follower that diverged), at its start (DeleteRecords), retention.

Files that are taken out are renamed to `.deleted`, and removed in a thread: those of retention
after file.delete.delay.ms, those that a truncation cuts off as soon as possible.  A truncation
renames the newest first, retention the oldest, so that a crash leaves no hole.

Source: Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt, maybeIncrementLogStartOffset,
deleteOldSegments; LocalLog.removeAndDeleteSegments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.storage.events import StorageEvent, summary
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.log.log_append import ensure_ready, roll
from odradek.storage.log.plan import (
    OldSegment,
    plan_age_deletion,
    plan_log_start_deletion,
    plan_size_deletion,
)
from odradek.storage.producers.replay import replay
from odradek.storage.segments.segment import Cut, Segment

if TYPE_CHECKING:
    from odradek.storage.log.log import Log


@dataclass(frozen=True, slots=True)
class RemovedFiles:
    """Files that nothing uses any more, under names that the next start would remove too."""

    paths: tuple[str, ...]
    remove_at_ms: int
    """file.delete.delay.ms after they were set aside."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """What a truncation has cut off."""

    paths: tuple[str, ...]
    """Files of whole segments, to be removed in a thread; the next start would remove them too."""


def advance_log_start(log: Log, offset: int) -> None:
    """`Log.advance_log_start`."""
    assert offset <= log.end_offset, "the start would lie behind the end"
    if offset <= log.log_start_offset:
        return
    log.log_start_offset = offset
    log.advance_high_watermark(offset)
    if log.leader_epochs.truncate_from_start(offset):
        log.write_epochs()
    log.producer_states.truncate_head(offset)


def delete_old_segments(
    log: Log, now_ms: int, high_watermark: int, count_max: int
) -> list[RemovedFiles]:
    """`Log.delete_old_segments`: by the start of the log, by size, by age."""
    removed: list[RemovedFiles] = []
    if log.is_offline:
        return removed
    count = plan_log_start_deletion(_old_segments(log, count_max), log.log_start_offset)
    if count:
        removed.append(_delete(log, count, now_ms, f"the log's start is {log.log_start_offset}"))
        count_max -= count
    config = log.config
    if not config.cleanup_delete:
        return removed
    if config.retention_bytes >= 0:
        old = _old_segments(log, count_max)
        count = plan_size_deletion(old, config, high_watermark, log.size_bytes())
        if count:
            reason = f"retention.bytes is {config.retention_bytes}"
            removed.append(_delete(log, count, now_ms, reason))
            count_max -= count
    if config.retention_ms >= 0:
        old = _old_segments(log, count_max, with_times=True)
        count = plan_age_deletion(old, config, high_watermark, now_ms)
        if count:
            reason = f"retention.ms is {config.retention_ms}"
            removed.append(_delete(log, count, now_ms, reason))
    return removed


def _old_segments(log: Log, count_max: int, *, with_times: bool = False) -> Iterator[OldSegment]:
    """The oldest first; a time is read when its segment's turn comes."""
    last = len(log.segments) - 1
    for number in range(min(count_max, last + 1)):
        segment = log.segments[number]
        yield OldSegment(
            segment.size,
            log.end_offset if number == last else log.base_offsets[number + 1],
            segment.largest_timestamp_or_change_ms() if with_times else 0,
            number == last,
        )


def _delete(log: Log, count: int, now_ms: int, reason: str) -> RemovedFiles:
    """Take out the oldest segments; there is always one left."""
    if count == len(log.segments):
        roll(log, log.end_offset, now_ms)
    assert count < len(log.segments), "a log without a segment"
    size = sum(segment.size for segment in log.segments[:count])
    bases, end_offset = log.base_offsets[:count], log.base_offsets[count]
    advance_log_start(log, end_offset)
    paths: list[str] = []
    taken = 0
    try:
        for segment in log.segments[:count]:
            rename_aside(log, segment.handle.path, paths)
            segment.drop()
            taken += 1
            # Without their .log file they are nothing: the next start removes what stays.
            with contextlib.suppress(OSError):
                for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX):
                    with contextlib.suppress(FileNotFoundError):
                        rename_aside(log, segment.path(suffix), paths)
                snapshot = log.snapshots.set_aside(segment.base_offset)
                if snapshot is not None:
                    paths.append(snapshot)
    finally:
        del log.segments[:taken], log.base_offsets[:taken]
    _report(
        log,
        f"{count} segments with {size} bytes below offset {end_offset} are deleted, {reason}: "
        f"{summary(bases)}",
    )
    return RemovedFiles(tuple(paths), now_ms + log.config.file_delete_delay_ms)


def _report(log: Log, text: str) -> None:
    log.shared.report(StorageEvent(log.directory, text, is_warning=False))


def rename_aside(log: Log, path: str, paths: list[str]) -> None:
    """Give a file the name under which any start removes it, and note that; raises OSError."""
    aside = path + names.DELETED
    log.shared.files.rename(path, aside)
    paths.append(aside)


def truncate_to(log: Log, offset: int, now_ms: int) -> Truncation | None:
    """`Log.truncate_to`."""
    assert offset >= 0, "an offset is not negative"
    if offset >= log.end_offset:
        # There may be an epoch at the end that has no batch yet and that the leader does not know.
        if log.leader_epochs.truncate_from_end(offset):
            log.write_epochs()
        return None
    if offset < log.first_base_offset:
        return truncate_fully(log, offset, None, now_ms)
    paths: list[str] = []
    former_end, former_bytes = log.end_offset, log.size_bytes()
    try:
        # Before anything is changed: the indexes may have to be rebuilt first.
        cut = log.segments[log.segment_number(offset)].plan_cut(offset)
        log.cut_count += 1
        _cut_segments(log, offset, cut, now_ms, paths)
        if log.leader_epochs.truncate_from_end(log.end_offset):
            log.write_epochs()
        _restore_producers(log, now_ms)
    except (OSError, CorruptBatch):
        go_offline(log)
        raise
    _report(
        log,
        f"truncated to offset {log.end_offset}: it ended at {former_end}, "
        f"{former_bytes - log.size_bytes()} bytes are removed",
    )
    return Truncation(tuple(paths))


def go_offline(log: Log) -> None:
    """The disk has failed within a change of files: what is there is for the next start."""
    log.is_offline = True
    log.update_limits()


def _cut_segments(log: Log, offset: int, cut: Cut | None, now_ms: int, paths: list[str]) -> None:
    while log.base_offsets[-1] > offset:
        _remove_last_segment(log, paths)
        log.active = log.segments[-1]
    active = log.active
    if cut is not None:
        active.truncate(cut, now_ms)
        log.end_offset = min(cut.found.base_offset, offset)
    else:
        # The batches end before `offset`; offsets between were compacted away.
        log.end_offset = offset
    log.log_start_offset = min(log.log_start_offset, log.end_offset)
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
    log.note_end_cut()
    log.update_limits()


def _remove_last_segment(log: Log, paths: list[str]) -> None:
    segment = log.segments[-1]
    segment.drop()
    rename_aside(log, segment.handle.path, paths)
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX):
        with contextlib.suppress(FileNotFoundError):
            rename_aside(log, segment.path(suffix), paths)
    log.segments.pop()
    log.base_offsets.pop()


def _restore_producers(log: Log, now_ms: int) -> None:
    log.snapshots.remove_above(log.end_offset)
    states = log.producer_states
    if not states.truncate_tail(log.end_offset):
        return
    states.reset(log.first_base_offset)
    log.snapshots.load_newest(
        states,
        log.end_offset,
        now_ms=now_ms,
        expiration_ms=log.config.producer_id_expiration_ms,
    )
    replay(log.segments, states, log.end_offset)
    states.on_high_watermark(log.high_watermark)


def truncate_fully(log: Log, offset: int, log_start_offset: int | None, now_ms: int) -> Truncation:
    """`Log.truncate_fully_and_start_at`."""
    assert offset >= 0, "an offset is not negative"
    log.cut_count += 1
    _report(
        log,
        f"truncated fully: it was {log.log_start_offset} to {log.end_offset}, "
        f"{log.size_bytes()} bytes are removed, and goes on at offset {offset}",
    )
    paths: list[str] = []
    try:
        while log.segments:
            _remove_last_segment(log, paths)
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
    return Truncation(tuple(paths))
