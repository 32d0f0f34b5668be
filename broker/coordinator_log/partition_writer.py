"""Appends to one partition of an internal topic, and waits until its replicas have the records.

Source: Kafka's PartitionWriter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.coordinator_log.context import CoordinatorContext
from odradek.broker.replication.awaited_replication import when_replicated
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch


class Written(NamedTuple):
    """The result of an append; the offsets are -1 when the batch was not appended."""

    error: ErrorCode
    base_offset: int = -1
    last_offset: int = -1


class PartitionWriter:
    """A partition, as long as this broker leads it without a break."""

    def __init__(self, partition: Partition, context: CoordinatorContext) -> None:
        self.partition = partition
        self._context = context
        self._leader = partition.leader

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def is_leading(self) -> bool:
        """Whether this broker has led the partition all the time since this was made.

        Differs from Kafka: one whose log directory has failed does not, as another broker may lead
        by now.
        """
        leader = self.partition.leader
        is_same = leader is not None and leader.continues(self._leader)
        return is_same and not self.partition.log.is_offline

    def write(
        self, batch: RecordBatch, check: Callable[[RecordBatch], None] | None = None
    ) -> Written:
        """Append a batch without waiting.

        check   called last before the append; the BrokerError that it raises is the error
        errors  NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, MESSAGE_TOO_LARGE, those of the log
        """
        partition = self.partition
        leader = partition.leader
        if leader is None or not leader.continues(self._leader):
            return Written(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader.is_under_min_isr(partition.log.config.min_insync_replicas):
            return Written(ErrorCode.NOT_ENOUGH_REPLICAS)
        if batch.size > partition.log.config.max_message_bytes:
            return Written(ErrorCode.MESSAGE_TOO_LARGE)
        if check is not None:
            try:
                check(batch)
            except BrokerError as error:
                return Written(error.code)
        (result,) = partition.append([batch], self._context.clock.now_ms())
        self._context.purgatory.notify(partition)
        self._context.purgatory.notify(partition.log_end_key)
        if isinstance(result, BrokerError):
            return Written(result.code)
        return Written(ErrorCode.NONE, result.base_offset, result.last_offset)

    def when_replicated(
        self,
        last_offset: int,
        call: Callable[[ErrorCode], None],
        *,
        timeout_ms: int,
        needs_min_isr: bool = True,
    ) -> None:
        """Call once, perhaps within this call: with NONE when all replicas in sync have the records
        up to `last_offset`, else with the error.

        needs_min_isr  False: also when fewer than min.insync.replicas are in sync
        """
        when_replicated(
            self.partition,
            self._leader,
            last_offset,
            call,
            purgatory=self._context.purgatory,
            clock=self._context.clock,
            timeout_ms=timeout_ms,
            needs_min_isr=needs_min_isr,
        )
