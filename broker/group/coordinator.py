"""The groups that this broker coordinates: which partition of `__consumer_offsets` a group is in.

A group belongs to the partition that the hash of its id names, and whoever leads that partition is
its coordinator.  Source: Kafka's GroupCoordinator, GroupMetadataManager.partitionFor.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from odradek.broker.group.context import Doors
from odradek.broker.group.slices import run_in_slices
from odradek.broker.topics import OFFSETS_TOPIC, Topics, java_string_hash
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.randomness import Randomness

if TYPE_CHECKING:
    from odradek.broker.group.shard import Shard
    from odradek.broker.replication.partition import Partition


def abs_java(number: int) -> int:
    """Kafka's Utils.abs: the least int32 counts as 0."""
    return 0 if number == -(2**31) else abs(number)


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` that a group belongs to."""
    return abs_java(java_string_hash(group_id)) % partition_count


class GroupCoordinator:
    """All shards of this broker.

    partition_count  of the topic while it does not exist
    """

    def __init__(
        self,
        doors: Doors,
        topics: Topics,
        rng: Randomness,
        *,
        partition_count: int,
        retention_ms: int,
    ) -> None:
        self.shards: dict[int, Shard] = {}
        self.limits = doors.limits
        self.consumer = doors.consumer
        self._doors = doors
        self._topics = topics
        self._rng = rng
        self._default_count = partition_count
        self._count: int | None = None
        self._retention_ms = retention_ms
        self._tickets = count(1)
        self._is_expiring = False
        self._is_forgetting = False

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition in a new leader epoch: read it, then coordinate."""
        # Imported at the first use: most nodes are ready before anybody has a group.
        from odradek.broker.group.consumer.topics import TopicDirectory
        from odradek.broker.group.shard import Shard

        if self._doors.directory is None:
            self._doors.directory = TopicDirectory(self._topics.image)
        self.resign(partition.index)
        self.shards[partition.index] = Shard(partition, self._doors)

    def resign(self, index: int) -> None:
        """Another broker leads a partition, or it is gone."""
        self._count = None
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.close()

    def shard_of(self, group_id: str) -> Shard:
        """Where a group lives.

        raises  BrokerError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE
        """
        partition_count = self._count
        if partition_count is None:
            partition_count = self._count = self._partition_count()
        shard = self.shards.get(partition_for(group_id, partition_count))
        if shard is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        shard.check_ready()
        if group_id in shard.refused:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if shard.deleted:
            shard.catch_up(group_id)
        return shard

    def _partition_count(self) -> int:
        view = self._topics.view(OFFSETS_TOPIC)
        return self._default_count if view is None else len(view.partitions)

    def ticket(self) -> int:
        """A name for a request that waits."""
        return next(self._tickets)

    def new_member_id(self, prefix: str) -> str:
        """An id for a member: its client id or instance id, and something unique."""
        return f"{prefix}-{self._rng.uuid()}"

    def new_uuid(self) -> str:
        """An id for a member of the new protocol that brings none: 22 characters, as in Kafka."""
        return urlsafe_b64encode(self._rng.uuid().bytes).decode().rstrip("=")

    def between_requests(self, steps: Iterator[None]) -> None:
        """Work on many groups, step by step."""
        run_in_slices(self._doors.wheel, self._doors.clock, steps)

    def expire(self) -> None:
        """Forget old offsets in all groups, between requests."""
        if not self._is_expiring:
            self._is_expiring = True
            self.between_requests(self._expire())

    def _expire(self) -> Iterator[None]:
        try:
            for shard in list(self.shards.values()):
                yield from shard.expire(self._retention_ms)
        finally:
            self._is_expiring = False

    def on_partition_deleted(self, topic: str, index: int) -> None:
        """Nobody can consume a deleted partition: groups forget their offsets of it, all of them
        between requests, and one that is asked for at once."""
        for shard in self.shards.values():
            shard.forget_partition((topic, index))
        if not self._is_forgetting:
            self._is_forgetting = True
            self.between_requests(self._forget_deleted())

    def _forget_deleted(self) -> Iterator[None]:
        try:
            while behind := [
                shard for shard in self.shards.values() if shard.deleted and not shard.is_loading
            ]:
                for shard in behind:
                    yield from shard.forget_deleted()
        finally:
            self._is_forgetting = False
