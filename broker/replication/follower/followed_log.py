"""The offsets of a log that a follower reads, and where a diverging log is truncated.

Pure.
Source: KIP-101, KIP-279, KIP-320, KIP-595; Kafka's AbstractFetcherThread.getOffsetTruncationState.
"""

from __future__ import annotations

from typing import Protocol

from odradek.storage.checkpoints.leader_epochs import (
    UNDEFINED_EPOCH,
    UNDEFINED_OFFSET,
    LeaderEpochs,
)
from odradek.storage.segments.segment_gaps import SegmentGap


class FollowedLog(Protocol):
    """`storage.log.log.Log`, as far as the decisions of a follower need it."""

    @property
    def end_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def truncation_count(self) -> int: ...
    @property
    def segment_gap(self) -> SegmentGap | None: ...
    @property
    def is_offline(self) -> bool: ...
    @property
    def is_truncating(self) -> bool: ...
    @property
    def leader_epochs(self) -> LeaderEpochs: ...


def fetch_offset_of(log: FollowedLog) -> int:
    """The offset at which fetching goes on: the first gap that is not explained, else the end.

    The log start offset may be above the end when the log is empty and the leader's first batch
    contains the log start offset (`Log.truncate_fully_and_start_at`).
    """
    gap = log.segment_gap
    return max(log.end_offset, log.log_start_offset) if gap is None else gap.start_offset


def last_epoch_before(log: FollowedLog, fetch_offset: int) -> int:
    """The leader epoch of what precedes the offset that is fetched, by which the leader finds a
    divergence; -1: not known."""
    epochs = log.leader_epochs
    if fetch_offset >= log.end_offset:
        return epochs.latest_epoch
    is_first = fetch_offset <= log.log_start_offset
    return UNDEFINED_EPOCH if is_first else epochs.epoch_of(fetch_offset - 1)


def first_truncation_offset(log: FollowedLog) -> int | None:
    """Where a log must be truncated before it is fetched the first time; None: nowhere.

    A log without leader epochs is truncated at the high watermark, since there is no other way to
    find where it diverges.
    """
    has_epochs = log.leader_epochs.latest_epoch != UNDEFINED_EPOCH
    return None if has_epochs or log.end_offset <= log.high_watermark else log.high_watermark


def would_truncate(log: FollowedLog, offset: int) -> bool:
    """Whether truncating to `offset` drops anything, if only the entry of an epoch without
    batches."""
    if offset < log.end_offset:
        return True
    entries = log.leader_epochs.entries
    return bool(entries) and entries[-1].start_offset >= offset


def truncation_offset(log: FollowedLog, leader_epoch: int, leader_end_offset: int) -> int:
    """Where to truncate a log that diverges from its leader's.

    leader_epoch, leader_end_offset  the leader's greatest epoch that is not above the follower's
                                     latest one, and where that epoch ends in the leader's log

    1. The leader does not know where: the high watermark.
    2. The leader knows no epoch, or the follower none up to the leader's: the leader's end offset.
    3. The follower does not know the leader's epoch: the end of its own greatest epoch below it;
       the next fetch may find another divergence, further below.
    4. Both know the epoch: where the shorter one of the two ends.

    returns  at most the log end offset
    """
    own_end_offset = log.end_offset
    if leader_end_offset == UNDEFINED_OFFSET:
        return min(log.high_watermark, own_end_offset)
    if leader_epoch == UNDEFINED_EPOCH:
        return min(leader_end_offset, own_end_offset)
    epoch, end_offset = log.leader_epochs.end_offset_for(leader_epoch, own_end_offset)
    if end_offset == UNDEFINED_OFFSET:
        return min(leader_end_offset, own_end_offset)
    if epoch != leader_epoch:
        return min(end_offset, own_end_offset)
    return min(end_offset, leader_end_offset, own_end_offset)
