"""Decides where a backup of a partition goes on: what it keeps, and which offset it reads next."""

from __future__ import annotations

from typing import NamedTuple

from odradek.tools.backup.manifest import NO_EPOCH, BackupFile, PartitionBackup


class LiveLog(NamedTuple):
    """The log of a partition as its leader describes it.

    epoch_end  where the leader epoch of the last batch of the backup ends (OffsetForLeaderEpoch);
               None: that was not asked for; negative: the leader has no such epoch
    """

    start_offset: int
    end_offset: int
    epoch_end: int | None = None


class Continuation(NamedTuple):
    """How to bring the backup of a partition up to date.

    lost  how many offsets the log has deleted before they were backed up
    """

    kept: tuple[BackupFile, ...]
    read_from: int
    lost: int = 0


class Diverged(NamedTuple):
    """The log does not have what the backup has; the reason is one line."""

    reason: str


def begin(live: LiveLog) -> Continuation:
    """Back up the whole log."""
    return Continuation((), live.start_offset)


def go_on(former: PartitionBackup, live: LiveLog) -> Continuation | Diverged:
    """Read what was appended since; drop files that are below the log start offset.

    source  a consumer's detection of truncation (KIP-320)
    """
    if live.end_offset < former.end_offset:
        return Diverged(
            f"it ends at offset {live.end_offset}, the backup at {former.end_offset}: it was "
            "truncated"
        )
    is_there = live.start_offset < former.end_offset and former.leader_epoch != NO_EPOCH
    if is_there and live.epoch_end is not None and live.epoch_end < former.end_offset:
        what = (
            f"its leader epoch {former.leader_epoch} ends at offset {live.epoch_end}"
            if live.epoch_end >= 0
            else f"it has no leader epoch {former.leader_epoch}"
        )
        return Diverged(f"{what}, the backup at {former.end_offset}: it was truncated")
    return Continuation(
        tuple(file for file in former.files if file.end_offset > live.start_offset),
        max(former.end_offset, live.start_offset),
        max(0, live.start_offset - former.end_offset),
    )
