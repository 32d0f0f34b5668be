"""The offsets that a group has committed, whatever protocol its members use.

Pure.  Source: KIP-211, KIP-447; Kafka's OffsetMetadataManager and OffsetAndMetadata.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """A committed offset of one partition."""

    offset: int
    leader_epoch: int
    """Leader epoch of the last consumed record, -1 unknown."""
    metadata: str
    commit_ms: int
    """Wall time."""
    expire_ms: int = -1
    """Wall time at which it expires, if the client has chosen it (OffsetCommit before version 5),
    else -1."""
    log_offset: int = -1
    """Offset of its record in `__consumer_offsets`; of two commits the later record counts."""


class FetchedOffset(NamedTuple):
    """The result of OffsetFetch for one partition; `committed` is None if there is nothing."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    error: ErrorCode


class GroupOffsets:
    """Committed offsets by partition, and those of transactions that may still be aborted."""

    __slots__ = ("committed", "pending_commits", "transactional")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.transactional: dict[int, dict[TopicPartition, OffsetAndMetadata]] = {}
        """Producer id -> offsets of its open transaction."""
        self.pending_commits: dict[TopicPartition, int] = {}
        """How many commits of a partition are appended and not replicated yet."""

    def is_empty(self) -> bool:
        """Whether there are no committed offsets and no pending commits."""
        return not self.committed and not self.transactional and not self.pending_commits

    def begin_commit(self, partitions: Iterable[TopicPartition]) -> None:
        """Commits are about to be appended; `end_commit` once they are replicated, or failed."""
        pending = self.pending_commits
        for partition in partitions:
            pending[partition] = pending.get(partition, 0) + 1

    def end_commit(self, partitions: Iterable[TopicPartition]) -> None:
        """The opposite of `begin_commit`."""
        pending = self.pending_commits
        for partition in partitions:
            pending[partition] -= 1
            if not pending[partition]:
                del pending[partition]

    def store(self, partition: TopicPartition, committed: OffsetAndMetadata) -> None:
        """Take over a replicated commit, unless one with a later record is there already."""
        stored_commit = self.committed.get(partition)
        if stored_commit is None or stored_commit.log_offset <= committed.log_offset:
            self.committed[partition] = committed

    def remove(self, partition: TopicPartition) -> None:
        """A tombstone: remove a committed offset, and those of open transactions."""
        self.committed.pop(partition, None)
        if self.transactional:
            for producer_id, offsets in list(self.transactional.items()):
                offsets.pop(partition, None)
                if not offsets:
                    del self.transactional[producer_id]

    def partitions(self) -> list[TopicPartition]:
        """All partitions that have a committed offset, or one in an open transaction."""
        if not self.transactional:
            return list(self.committed)
        return list(dict.fromkeys((*self.committed, *self._unstable())))

    def has(self, partition: TopicPartition) -> bool:
        """Whether a partition has a committed offset, or one in an open transaction."""
        return partition in self.committed or any(
            partition in offsets for offsets in self.transactional.values()
        )

    def is_older(self, partition: TopicPartition, log_offset: int) -> bool:
        """Whether each offset of a partition was stored before `log_offset`."""
        stored = [offsets.get(partition) for offsets in self.transactional.values()]
        stored.append(self.committed.get(partition))
        return all(commit is None or commit.log_offset < log_offset for commit in stored)

    def of_deleted(self, end_offsets: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """The deleted partitions that have offsets, in open transactions too.

        end_offsets  by deleted partition: commits at or after that offset belong to a later one
        """
        is_shorter = len(end_offsets) < len(self.committed) and not self.transactional
        return [
            partition
            for partition in (end_offsets if is_shorter else self.partitions())
            if partition in end_offsets
            and self.has(partition)
            and self.is_older(partition, end_offsets[partition])
        ]

    def store_transactional(
        self, producer_id: int, partition: TopicPartition, committed: OffsetAndMetadata
    ) -> None:
        """Add an offset to the open transaction of a producer."""
        self.transactional.setdefault(producer_id, {})[partition] = committed

    def end_transaction(self, producer_id: int, *, is_commit: bool, marker_offset: int) -> None:
        """Apply an end marker: the producer's offsets that precede it are committed or dropped."""
        ended = self.transactional.pop(producer_id, {})
        later = {}
        for partition, committed in ended.items():
            if committed.log_offset >= marker_offset:
                later[partition] = committed
            elif is_commit:
                self.store(partition, committed)
        if later:
            self.transactional[producer_id] = later

    def fetch(
        self, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
    ) -> Iterator[FetchedOffset]:
        """Committed offsets of some partitions; None means of all that have one.

        require_stable  UNSTABLE_OFFSET_COMMIT where an open transaction, or a commit that is not
                        replicated yet, may change the offset
        """
        unstable = {**self._unstable(), **self.pending_commits} if require_stable else {}
        if partitions is None:
            partitions = list(self.committed)
        for partition in partitions:
            if partition in unstable:
                yield FetchedOffset(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            else:
                yield FetchedOffset(partition, self.committed.get(partition), ErrorCode.NONE)

    def _unstable(self) -> dict[TopicPartition, int | None]:
        return {partition: None for offsets in self.transactional.values() for partition in offsets}

    def expired(
        self,
        *,
        wall_ms: int,
        retention_ms: int,
        unused_since_ms: int = -1,
        subscribed: Container[str] = (),
    ) -> list[TopicPartition]:
        """Partitions whose committed offsets have expired (KIP-211).

        unused_since_ms  the retention time starts then, -1: at the commit of the offset
        subscribed       topics whose offsets do not expire
        """
        unstable = self._unstable()
        return [
            partition
            for partition, commit in self.committed.items()
            if partition not in unstable
            and partition not in self.pending_commits
            and partition.topic not in subscribed
            and (
                wall_ms >= commit.expire_ms
                if commit.expire_ms >= 0
                else wall_ms - (commit.commit_ms if unused_since_ms < 0 else unused_since_ms)
                >= retention_ms
            )
        ]
