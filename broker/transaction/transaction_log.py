"""Appends to one partition of `__transaction_state`, and waits until its replicas have the record.

Source: Kafka's TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from odradek.broker.replication.awaited_replication import when_replicated
from odradek.broker.replication.partition import Partition
from odradek.broker.transaction.context import TransactionContext
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record

_RESPONSE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error of an append -> that of the response."""


class TransactionLog:
    """A partition of `__transaction_state`, as long as this broker leads it without a break."""

    def __init__(self, partition: Partition, context: TransactionContext) -> None:
        self.partition = partition
        self._context = context
        self._leader = partition.leader

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def is_leading(self) -> bool:
        """Whether this broker has led the partition all the time since this was made."""
        leader = self.partition.leader
        return leader is not None and leader.continues(self._leader)

    def append(
        self, records: Sequence[Record], call: Callable[[ErrorCode], None], *, timeout_ms: int
    ) -> None:
        """Append one uncompressed batch; `call` is called once, perhaps within this call.

        call  gets the error of the response: NONE, COORDINATOR_NOT_AVAILABLE (also when replicas do
              not have the batch within `timeout_ms`), NOT_COORDINATOR, UNKNOWN_SERVER_ERROR
        """

        def respond(error: ErrorCode) -> None:
            call(_RESPONSE_ERRORS.get(error, error))

        error, last_offset = self._write(records)
        if error:
            respond(error)
            return
        when_replicated(
            self.partition,
            self._leader,
            last_offset,
            respond,
            purgatory=self._context.purgatory,
            clock=self._context.clock,
            timeout_ms=timeout_ms,
        )

    def _write(self, records: Sequence[Record]) -> tuple[ErrorCode, int]:
        partition = self.partition
        leader = partition.leader
        if leader is None or not leader.continues(self._leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if leader.is_under_min_isr(partition.log.config.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        batch = build_batch(records)
        if len(batch) > partition.log.config.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        (result,) = partition.append([RecordBatch(memoryview(batch))], self._context.clock.now_ms())
        self._context.purgatory.notify(partition)
        self._context.purgatory.notify(partition.log_end_key)
        if isinstance(result, BrokerError):
            return result.code, -1
        return ErrorCode.NONE, result.last_offset
