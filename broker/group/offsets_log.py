"""Appends to one partition of `__consumer_offsets`, and waits until its replicas have the records.

Source: Kafka's GroupMetadataManager.appendForGroup, CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from odradek.broker.coordinator_log.shard import PartitionWriter
from odradek.broker.group.append_errors import AppendPurpose, response_error
from odradek.broker.group.context import GroupContext
from odradek.broker.group.records import batches
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.runtime.pending import Pending
from odradek.storage.producers.verification import VerificationGuard

logger = logging.getLogger("odradek.groups")

WhenReplicated = Callable[[ErrorCode, int], None]
"""Called with the error of an append and the offset of its first record, -1 if none was written."""


class OffsetsTransaction(NamedTuple):
    """The transaction in which offsets are committed."""

    producer_id: int
    producer_epoch: int
    is_verified: bool
    """False when transaction.partition.verification.enable is."""
    guard: VerificationGuard | None
    """Under which the transaction was verified; None: it was open."""


class OffsetsLog:
    """Appends to a partition of `__consumer_offsets`."""

    def __init__(self, writer: PartitionWriter, context: GroupContext) -> None:
        self._writer = writer
        self._context = context

    def __repr__(self) -> str:
        return repr(self._writer)

    def append(self, records: Sequence[Record], call: WhenReplicated) -> None:
        """Append one batch; `call` is called once, perhaps within this call."""
        error, base_offset = self.write(records)
        if error:
            call(error, -1)
        else:
            self.await_replicas(base_offset, base_offset + len(records) - 1, call)

    def write(
        self, records: Sequence[Record], transaction: OffsetsTransaction | None = None
    ) -> tuple[ErrorCode, int]:
        """Append one batch without waiting; returns the error and the offset of the first record.

        errors  NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, MESSAGE_TOO_LARGE, and those of the
                log: for a transaction INVALID_PRODUCER_EPOCH and INVALID_TXN_STATE
        """
        check: Callable[[RecordBatch], None] | None = None
        if transaction is not None and transaction.is_verified:
            states = self._writer.partition.log.producer_states
            check = partial(states.check_verified, guard=transaction.guard)
        written = self._writer.write(self._batch(records, transaction), check)
        return written.error, written.base_offset

    def _batch(
        self, records: Sequence[Record], transaction: OffsetsTransaction | None
    ) -> RecordBatch:
        codec = self._context.codec
        if transaction is None:
            return RecordBatch(memoryview(build_batch(records, codec=codec)))
        batch = build_batch(
            records,
            codec=codec,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            is_transactional=True,
        )
        return RecordBatch(memoryview(batch))

    def delete(self, tombstones: Sequence[Record]) -> Pending[ErrorCode]:
        """Append tombstones, in as many batches as they need; the first error ends it.

        returns  the error for the response, once all are replicated
        """
        if not tombstones:
            return Pending.of(ErrorCode.NONE)
        for batch in batches(tombstones, self._writer.partition.log.config.max_message_bytes):
            error, _ = self.write(batch)
            if error:
                logger.warning("%s: tombstones cannot be appended: %s", self._writer, error.name)
                return Pending.of(response_error(error, AppendPurpose.OFFSETS))
        deleted: Pending[ErrorCode] = Pending()
        self.when_replicated(
            lambda error: deleted.resolve(response_error(error, AppendPurpose.OFFSETS))
        )
        return deleted

    def when_replicated(self, call: Callable[[ErrorCode], None]) -> None:
        """Call when all records that the log holds now are replicated, or with the error."""
        last_offset = self._writer.partition.log.end_offset - 1
        self.await_replicas(last_offset, last_offset, lambda error, _: call(error))

    def await_replicas(self, base_offset: int, last_offset: int, call: WhenReplicated) -> None:
        """Call once the records up to `last_offset` are replicated, or with the error."""
        self._writer.when_replicated(
            last_offset,
            lambda error: call(error, base_offset),
            timeout_ms=self._context.commit_timeout_ms,
        )
