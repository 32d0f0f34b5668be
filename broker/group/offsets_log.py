"""Appends to one partition of `__consumer_offsets`, and waits until its replicas have the records.

Source: Kafka's GroupMetadataManager.appendForGroup, CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from odradek.broker.group.append_errors import AppendPurpose, response_error
from odradek.broker.group.context import GroupContext
from odradek.broker.group.records import batches
from odradek.broker.purgatory import Delayed
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.runtime.pending import Pending

logger = logging.getLogger("odradek.groups")

WhenReplicated = Callable[[ErrorCode, int], None]
"""Called with the error of an append and the offset of its first record, -1 if none was written."""


class OffsetsLog:
    """A partition, as long as this broker leads it without a break."""

    def __init__(self, partition: Partition, context: GroupContext) -> None:
        self.partition = partition
        self._context = context
        self._leader = partition.leader

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def is_leading(self) -> bool:
        """Whether this broker has led the partition all the time since this was made."""
        leader = self.partition.leader
        return leader is not None and leader.continues(self._leader)

    def append(self, records: Sequence[Record], when_replicated: WhenReplicated) -> None:
        """Append one batch; `when_replicated` is called once, perhaps within this call."""
        error, base_offset = self.write(records)
        if error:
            when_replicated(error, -1)
        else:
            last_offset = base_offset + len(records) - 1
            self._await_replicas(base_offset, last_offset, when_replicated)

    def write(self, records: Sequence[Record]) -> tuple[ErrorCode, int]:
        """Append one batch without waiting; returns the error and the offset of the first record.

        errors  NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, MESSAGE_TOO_LARGE, and those of the log
        """
        partition = self.partition
        leader = partition.leader
        if leader is None or not leader.continues(self._leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if leader.is_under_min_isr(partition.log.config.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        batch = build_batch(records, codec=self._context.codec)
        if len(batch) > partition.log.config.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        wall_ms = self._context.clock.now_ms()
        (result,) = partition.append([RecordBatch(memoryview(batch))], wall_ms)
        self._context.purgatory.notify(partition)
        self._context.purgatory.notify(partition.log_end_key)
        if isinstance(result, BrokerError):
            return result.code, -1
        return ErrorCode.NONE, result.base_offset

    def delete(self, tombstones: Sequence[Record]) -> Pending[ErrorCode]:
        """Append tombstones, in as many batches as they need; the first error ends it.

        returns  the error for the response, once all are replicated
        """
        if not tombstones:
            return Pending.of(ErrorCode.NONE)
        for batch in batches(tombstones, self.partition.log.config.max_message_bytes):
            error, _ = self.write(batch)
            if error:
                logger.warning("%s: tombstones cannot be appended: %s", self, error.name)
                return Pending.of(response_error(error, AppendPurpose.OFFSETS))
        deleted: Pending[ErrorCode] = Pending()
        self.when_replicated(
            lambda error: deleted.resolve(response_error(error, AppendPurpose.OFFSETS))
        )
        return deleted

    def when_replicated(self, call: Callable[[ErrorCode], None]) -> None:
        """Call when all records that the log holds now are replicated, or with the error."""
        last_offset = self.partition.log.end_offset - 1
        self._await_replicas(last_offset, last_offset, lambda error, _: call(error))

    def _await_replicas(
        self, base_offset: int, last_offset: int, when_replicated: WhenReplicated
    ) -> None:
        partition = self.partition

        def attempt() -> ErrorCode | None:
            leader = partition.leader
            if leader is None or not leader.continues(self._leader):
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            if partition.high_watermark <= last_offset:
                return ErrorCode.KAFKA_STORAGE_ERROR if partition.log.is_offline else None
            if leader.lost_min_isr(partition.log.config.min_insync_replicas):
                return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return ErrorCode.NONE

        if self.is_leading() and partition.high_watermark > last_offset:
            when_replicated(ErrorCode.NONE, base_offset)
            return
        delayed = Delayed(
            (partition,),
            self._context.commit_timeout_ms,
            attempt,
            lambda: ErrorCode.REQUEST_TIMED_OUT,
        )
        self._context.purgatory.park(
            delayed,
            self._context.clock.monotonic_ms(),
            lambda error: when_replicated(error, base_offset),
        )
