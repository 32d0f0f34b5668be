"""The group coordinator of this broker: which shard a group belongs to.

The hash of a group id names a partition of `__consumer_offsets`; the leader of that partition
coordinates the group.  Source: Kafka's GroupCoordinator.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from odradek.broker.group.context import GroupContext
from odradek.broker.topics import OFFSETS_TOPIC, Topics, partition_for
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.randomness import Randomness

if TYPE_CHECKING:
    from odradek.broker.group.consumer.topics import TopicDirectory
    from odradek.broker.group.shard import Shard
    from odradek.broker.replication.partition import Partition


class GroupCoordinator:
    """The shards of all partitions of `__consumer_offsets` that this broker leads.

    partition_count  of the topic before it exists
    """

    def __init__(
        self,
        context: GroupContext,
        topics: Topics,
        randomness: Randomness,
        *,
        partition_count: int,
        retention_ms: int,
    ) -> None:
        self.shards: dict[int, Shard] = {}
        self.limits = context.limits
        self.consumer = context.consumer
        self._context = context
        self._topics = topics
        self._directory: TopicDirectory | None = None
        self._randomness = randomness
        self._default_count = partition_count
        self._count: int | None = None
        self._retention_ms = retention_ms
        self._tickets = count(1)
        self._is_expiring = False
        self._is_forgetting = False

    def lead(self, partition: Partition) -> None:
        """Load a partition that this broker leads in a new leader epoch, and coordinate.

        A partition that it has led in the epoch before is coordinated already.
        """
        # Imported at the first use: most nodes are ready before they have a group.
        from odradek.broker.group.consumer.topics import TopicDirectory
        from odradek.broker.group.shard import Shard

        if self._directory is None:
            self._directory = TopicDirectory(self._topics.image)
        shard = self.shards.get(partition.index)
        if shard is not None and shard.continues_with(partition):
            return
        self.resign(partition.index)
        self.shards[partition.index] = Shard(partition, self._context, self._directory)

    def resign(self, index: int) -> None:
        """Close the shard of a partition that another broker leads, or that was deleted."""
        self._count = None
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.close()

    def shard_of(self, group_id: str) -> Shard:
        """The shard of a group, ready for requests.

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
            shard.forget_deleted_of(group_id)
        return shard

    def is_loading(self, index: int) -> bool:
        """Whether the groups of a partition are read: what is appended now might be missed."""
        shard = self.shards.get(index)
        return shard is not None and shard.is_loading and not shard.has_failed

    def end_transaction(
        self, index: int, producer_id: int, *, is_commit: bool, marker_offset: int
    ) -> None:
        """Commit or drop offsets: the marker at `marker_offset` of a partition is replicated."""
        shard = self.shards.get(index)
        if shard is not None and not shard.is_loading:
            shard.end_transaction(producer_id, is_commit=is_commit, marker_offset=marker_offset)

    def _partition_count(self) -> int:
        count = self._topics.image().hashed_partition_count(OFFSETS_TOPIC)
        return self._default_count if count is None else count

    def ticket(self) -> int:
        """A new name for a request that waits."""
        return next(self._tickets)

    def new_member_id(self, prefix: str) -> str:
        """A member id: the client id or instance id, and a UUID."""
        return f"{prefix}-{self._randomness.uuid()}"

    def new_uuid(self) -> str:
        """A member id for a consumer group, of 22 characters as in Kafka."""
        return urlsafe_b64encode(self._randomness.uuid().bytes).decode().rstrip("=")

    def expire_offsets(self) -> None:
        """Delete the expired offsets of all groups, between requests."""
        if not self._is_expiring:
            self._is_expiring = True
            self._context.run_between_requests(self._expire_steps())

    def _expire_steps(self) -> Iterator[None]:
        try:
            for shard in list(self.shards.values()):
                yield from shard.expire_offsets(self._retention_ms)
        finally:
            self._is_expiring = False

    def on_partition_deleted(self, topic: str, index: int) -> None:
        """Delete the offsets that groups have committed for a deleted partition.

        This is done for all groups between requests, and for one group before it is read.
        """
        for shard in self.shards.values():
            shard.note_deleted_partition(TopicPartition(topic, index))
        if not self._is_forgetting:
            self._is_forgetting = True
            self._context.run_between_requests(self._forget_steps())

    def _forget_steps(self) -> Iterator[None]:
        try:
            while unfinished := [
                shard for shard in self.shards.values() if shard.deleted and not shard.is_loading
            ]:
                for shard in unfinished:
                    yield from shard.forget_deleted()
        finally:
            self._is_forgetting = False
