"""Waits until the replicas have the records that this broker has appended for itself.

For coordinators and transaction markers; produce requests wait by `handlers/produce`, which checks
many partitions of one request together.  Source: Kafka's DelayedProduce.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.purgatory import Delayed, Purgatory
from odradek.broker.replication.leader import PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.runtime.clock import Clock


def when_replicated(
    partition: Partition,
    leader: PartitionLeader | None,
    last_offset: int,
    call: Callable[[ErrorCode], None],
    *,
    purgatory: Purgatory,
    clock: Clock,
    timeout_ms: int,
    needs_min_isr: bool = True,
) -> None:
    """Call once, perhaps within this call, when the records up to `last_offset` are replicated.

    leader         of the partition when they were appended
    call           gets NONE, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT or
                   NOT_ENOUGH_REPLICAS_AFTER_APPEND
    needs_min_isr  False: the replicas that are in sync are enough, however few; since the high
                   watermark does not tell, only a change of the partition is seen at once
    """

    def end_offset() -> int:
        return partition.high_watermark if needs_min_isr else partition.in_sync_end()

    def is_leading() -> bool:
        present = partition.leader
        return present is not None and present.continues(leader)

    def attempt() -> ErrorCode | None:
        present = partition.leader
        if present is None or not present.continues(leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if end_offset() <= last_offset:
            return ErrorCode.KAFKA_STORAGE_ERROR if partition.log.is_offline else None
        if needs_min_isr and present.lost_min_isr(partition.log.config.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    if is_leading() and end_offset() > last_offset:
        call(ErrorCode.NONE)
        return
    delayed = Delayed((partition,), timeout_ms, attempt, lambda: ErrorCode.REQUEST_TIMED_OUT)
    purgatory.park(delayed, clock.monotonic_ms(), call)
