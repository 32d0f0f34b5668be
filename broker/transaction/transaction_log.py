"""Appends to one partition of `__transaction_state`, and waits until its replicas have the record.

Source: Kafka's TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from odradek.broker.coordinator_log.shard import PartitionWriter
from odradek.protocol.errors import ErrorCode
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
    """Appends to a partition of `__transaction_state`."""

    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer

    def append(
        self, records: Sequence[Record], call: Callable[[ErrorCode], None], *, timeout_ms: int
    ) -> None:
        """Append one uncompressed batch; `call` is called once, perhaps within this call.

        call  gets the error of the response: NONE, COORDINATOR_NOT_AVAILABLE (also when replicas do
              not have the batch within `timeout_ms`), NOT_COORDINATOR, UNKNOWN_SERVER_ERROR
        """

        def respond(error: ErrorCode) -> None:
            call(_RESPONSE_ERRORS.get(error, error))

        written = self._writer.write(RecordBatch(memoryview(build_batch(records))))
        if written.error:
            respond(written.error)
        else:
            self._writer.when_replicated(written.last_offset, respond, timeout_ms=timeout_ms)
