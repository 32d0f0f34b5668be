"""Puts cleaned segments into the place of those that they were made of.

The worker has written and synced `<base>.log.cleaned` and its indexes.  For each group, in this
order, every step a rename:

    1  .cleaned      becomes .swap: from the last one of these on, a start finishes what follows
    2  old segments  become .deleted, the oldest first: what a crash leaves of the group is its
                     newer part, so that no record comes back without what replaced it
    3  .swap         loses that name, the .log file last

One group after the other: `.cleaned` files of a later group do not condemn an earlier `.swap`
(storage/recovery/swap_files).  The folder need not be synced in between, since a file system keeps
the order of renames in a folder; before a checkpoint speaks of the cleaning it has to be.

Whoever reads an old segment goes on reading it: its file stays open for the slices that hold it.

Source: Kafka's LocalLog.replaceSegments, UnifiedLog.replaceSegments; KAFKA-6264.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.storage.compaction.job import CleanedGroup
from odradek.storage.files import names
from odradek.storage.log.log_truncate import RemovedFiles, go_offline
from odradek.storage.segments.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log.log import Log

_SUFFIXES = (names.TXN_INDEX, names.TIME_INDEX, names.OFFSET_INDEX, names.LOG)


def replace_segments(
    log: Log, groups: Sequence[CleanedGroup], cut_count: int, now_ms: int
) -> list[RemovedFiles] | None:
    """`Log.replace_segments`."""
    if log.is_offline or log.cut_count != cut_count:
        return None
    if not all(_fits(log, group) for group in groups):
        return None
    try:
        return [_replace(log, group, now_ms) for group in groups]
    except OSError:
        # Some files have their new names, others not; the next start finishes it.
        go_offline(log)
        raise


def _fits(log: Log, group: CleanedGroup) -> bool:
    """Whether the log still has the segments, closed, and the files are there."""
    replaced = list(group.replaced_base_offsets)
    number = bisect_left(log.base_offsets, replaced[0])
    end_number = number + len(replaced)
    if group.base_offset != replaced[0] or log.base_offsets[number:end_number] != replaced:
        return False
    if end_number >= len(log.segments):
        return False
    files = log.shared.files
    path = log.segments[number].handle.path + names.CLEANED
    return files.exists(path) and files.size(path) == group.size_bytes


def _replace(log: Log, group: CleanedGroup, now_ms: int) -> RemovedFiles:
    files = log.shared.files
    number = bisect_left(log.base_offsets, group.base_offset)
    end_number = number + len(group.replaced_base_offsets)
    segment = Segment(
        log.shared, log.directory, group.base_offset, size=group.size_bytes, created_ms=now_ms
    )
    present = [
        path for suffix in _SUFFIXES if files.exists((path := segment.path(suffix)) + names.CLEANED)
    ]
    for path in present:
        files.rename(path + names.CLEANED, path + names.SWAP)
    removed: list[str] = []
    for old in log.segments[number:end_number]:
        for path in reversed(old.existing_paths()):
            files.rename(path, path + names.DELETED)
            removed.append(path + names.DELETED)
        old.drop()
    for path in present:
        files.rename(path + names.SWAP, path)
    log.segments[number:end_number] = [segment]
    log.base_offsets[number:end_number] = [group.base_offset]
    for base_offset in group.replaced_base_offsets[1:]:
        snapshot = log.snapshots.set_aside(base_offset)
        if snapshot is not None:
            removed.append(snapshot)
    return RemovedFiles(tuple(removed), now_ms + log.config.file_delete_delay_ms)
