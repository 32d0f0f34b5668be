"""Verdicts on consumers from their last commits, without thresholds.  Pure.

Only a partition that was behind at every one of its last commits can be in trouble:

    REWIND  an offset is lower than the one before
    STOP    the last commit is longer ago than the window of commits is long
    STALL   the offset does not change
    WARN    it rises, and the lag never falls

A group is as its worst partition is; of STOP, STALL and REWIND it is called ERR.
Source: Burrow's "Consumer Lag Evaluation Rules" and its caching evaluator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition

WINDOW: Final = 10
"""Commits that are looked at."""


class LagStatus(IntEnum):
    """Burrow's states; the worse ones are greater."""

    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class Commit(NamedTuple):
    offset: int
    timestamp_ms: int
    lag: int
    """Records between it and the end of the log at that time."""


class PartitionLag(NamedTuple):
    """The verdict on one partition of a group."""

    partition: TopicPartition
    status: LagStatus
    commits: tuple[Commit, ...]
    """At most `WINDOW`, the oldest first."""
    current_lag: int

    @property
    def complete(self) -> float:
        """Which part of the window has commits."""
        return len(self.commits) / WINDOW


class GroupLag(NamedTuple):
    """The verdict on a group."""

    group: str
    status: LagStatus
    partitions: tuple[PartitionLag, ...]

    @property
    def total_lag(self) -> int:
        return sum(partition.current_lag for partition in self.partitions)

    @property
    def worst(self) -> PartitionLag | None:
        """The partition that is furthest behind; None without partitions."""
        return max(self.partitions, key=lambda partition: partition.current_lag, default=None)

    @property
    def complete(self) -> float:
        """Which part of the partitions has a whole window."""
        full = sum(partition.complete == 1 for partition in self.partitions)
        return full / len(self.partitions) if self.partitions else 1.0


def partition_status(commits: Sequence[Commit], current_lag: int, now_ms: int) -> LagStatus:
    """The verdict on one partition; no commits at all are older than any window."""
    if current_lag <= 0 or any(commit.lag <= 0 for commit in commits):
        return LagStatus.OK
    if any(later.offset < earlier.offset for earlier, later in pairwise(commits)):
        return LagStatus.REWIND
    if not commits:
        return LagStatus.STOP
    first, last = commits[0], commits[-1]
    if now_ms - last.timestamp_ms > last.timestamp_ms - first.timestamp_ms:
        return LagStatus.STOP
    if first.offset == last.offset:
        return LagStatus.STALL
    if all(later.lag >= earlier.lag for earlier, later in pairwise(commits)):
        return LagStatus.WARN
    return LagStatus.OK


def evaluate(
    group: str,
    commits: Mapping[TopicPartition, Sequence[Commit]],
    current_lags: Mapping[TopicPartition, int],
    now_ms: int,
) -> GroupLag:
    """The verdict on a group whose committed offsets are those of `current_lags`."""
    partitions = tuple(
        PartitionLag(
            partition,
            partition_status(commits.get(partition, ()), lag, now_ms),
            tuple(commits.get(partition, ())),
            lag,
        )
        for partition, lag in sorted(current_lags.items())
    )
    worst = max((partition.status for partition in partitions), default=LagStatus.OK)
    return GroupLag(group, min(worst, LagStatus.ERR), partitions)


def window(
    offsets: Iterable[tuple[int, int]], interval_ms: int, size: int = WINDOW
) -> list[tuple[int, int]]:
    """The last commits as (timestamp in ms, offset): of those within `interval_ms` of the one that
    begins an interval, the newest.

    Source: `min-distance` of Burrow's storage.
    """
    kept: list[tuple[int, int]] = []
    begin_ms = 0
    for timestamp_ms, offset in sorted(offsets, key=lambda commit: commit[0]):
        if kept and timestamp_ms - begin_ms < interval_ms:
            kept[-1] = timestamp_ms, offset
        else:
            begin_ms = timestamp_ms
            kept.append((timestamp_ms, offset))
    return kept[-size:]
