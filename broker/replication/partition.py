"""A partition on this broker: its log, and what the controller last said about its leadership."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from broker.replication.leader import PartitionLeader
from protocol.errors import BrokerError, ErrorCode
from protocol.records.batch import RecordBatch
from storage.log import Appended, Log

NO_EPOCH = -1


class Partition:
    """A replica; `leader` is None while another broker leads or nobody does."""

    __slots__ = (
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: UUID, index: int, log: Log) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader: PartitionLeader | None = None
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what consumers may read."""
        leader = self.leader
        return leader.high_watermark if leader is not None else self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end of what read_committed consumers may read; at most the high watermark."""
        high_watermark = self.high_watermark
        unstable = self.log.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def leading(self) -> PartitionLeader:
        """The leader's side of it.

        raises  BrokerError NOT_LEADER_OR_FOLLOWER when this broker does not lead,
                KAFKA_STORAGE_ERROR when the log's directory has failed
        """
        leader = self.leader
        if leader is None:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.log.is_offline:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
        return leader

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fence both ways (KIP-320); -1 means that the client did not say.

        raises  BrokerError FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
        """
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def append(self, batches: Sequence[RecordBatch], now_ms: int) -> list[Appended | BrokerError]:
        """Append as the leader and move the high watermark."""
        leader = self.leader
        if leader is None:
            return [BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(batches)
        results = self.log.append(batches, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if leader.on_append(self.log.end_offset):
            self.log.producer_states.on_high_watermark(leader.high_watermark)
        return results

    def fetch_end(self, *, read_committed: bool) -> int:
        """Where a consumer's reads end."""
        return self.last_stable_offset if read_committed else self.high_watermark
