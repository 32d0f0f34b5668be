"""The transactional ids of one partition of `__transaction_state` while this broker leads it.

A shard loads the partition's records, appends the transitions that requests decide, and has the
markers of ended transactions written.

Invariants: a transition is applied when its record is replicated; markers are written after the
outcome is replicated; another transaction begins after every marker is written and that is
replicated too.
Source: Kafka's TransactionStateManager (appendTransactionToLog) and TransactionCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.broker.coordinator_log.shard import CoordinatorShard, PartitionWriter
from odradek.broker.replication.partition import Partition
from odradek.broker.transaction.context import TransactionContext
from odradek.broker.transaction.deadlines import TransactionDeadlines
from odradek.broker.transaction.decisions import (
    decide_abort_fenced,
    decide_abort_v2,
    decide_add_partitions,
    decide_complete,
    decide_end,
    decide_end_v2,
    decide_fence,
    decide_init_producer_id,
    is_expired,
    is_timed_out,
    verify_partitions,
)
from odradek.broker.transaction.marker_channels import MarkerChannels
from odradek.broker.transaction.markers import PendingMarkers, TxnMarker
from odradek.broker.transaction.metadata import (
    TV_2,
    EndTxnResult,
    InitProducerIdResult,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionPartitions,
    TransactionState,
    TxnTransitMetadata,
    new_metadata,
)
from odradek.broker.transaction.records import TransactionReplay, transaction_record
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending

RETRY_MS: Final = 100
"""Between two attempts to append that all markers are written."""
EXPIRED_AT_ONCE: Final = 100
"""Ids whose tombstones share a batch; an id has 64 KiB at most, most have 50 bytes."""
EXPIRED_BYTES_MAX: Final = 16_384
RESPONSE_ERRORS: Final = {
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

logger = logging.getLogger("odradek.transactions")


class TransactionShard(CoordinatorShard[TransactionContext, TransactionReplay]):
    """The ids of one partition, from the leader epoch in which this broker began to lead it."""

    def __init__(
        self, partition: Partition, context: TransactionContext, markers: MarkerChannels
    ) -> None:
        writer = PartitionWriter(partition, context)
        super().__init__(writer, context, "transactional ids")
        self.ids: dict[str, TransactionMetadata] = {}
        self._markers = markers
        self._deadlines = TransactionDeadlines(context, self._on_timed_out)
        self._timed_out: dict[TransactionMetadata, None] = {}
        """Ids that are looked at between requests."""
        self._load()

    @property
    def coordinator_epoch(self) -> int:
        """The leader epoch, with which markers are written: those of an older coordinator fail."""
        return self._writer.partition.leader_epoch

    def _new_replay(self) -> TransactionReplay:
        return TransactionReplay()

    def _loaded(self, replay: TransactionReplay) -> None:
        self.ids = replay.ids
        self.is_loading = False
        if replay.misplaced:
            logger.warning("%s: %d wrong base offsets were corrected", self, replay.misplaced)
        if replay.unreadable_count:
            logger.error(
                "%s: %d unreadable ranges were skipped, the first at %s",
                self,
                replay.unreadable_count,
                replay.first_unreadable,
            )
        if replay.unknown_records:
            logger.warning("%s: %d records of unknown kinds", self, replay.unknown_records)
        for metadata in list(self.ids.values()):
            if metadata.current.state.is_prepared:
                self._write_markers(metadata)
            elif metadata.current.state is TransactionState.ONGOING:
                self._deadlines.watch(metadata)

    def close(self) -> None:
        super().close()
        self._deadlines.close()
        self._timed_out.clear()
        self._markers.cancel(self)
        self.ids.clear()

    # Requests.

    def init_producer_id(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        new_producer_id: Callable[[], int],
    ) -> Pending[InitProducerIdResult]:
        """A producer begins, or continues after an error; what it has left open is aborted.

        errors  CONCURRENT_TRANSACTIONS (the producer asks again), PRODUCER_FENCED, those of an
                append (`_store`)
        raises  what `new_producer_id` raises; nothing has changed then
        """
        now_ms = self._context.clock.now_ms()
        metadata = self.ids.get(transactional_id)
        if metadata is None:
            metadata = self.ids[transactional_id] = new_metadata(
                transactional_id,
                producer_id=new_producer_id(),
                timeout_ms=timeout_ms,
                now_ms=now_ms,
            )
        decision = decide_init_producer_id(
            metadata,
            timeout_ms=timeout_ms,
            expected=expected,
            new_producer_id=new_producer_id,
            now_ms=now_ms,
        )
        if isinstance(decision, ErrorCode):
            return Pending.of(InitProducerIdResult(decision))
        target = decision
        if target.state is TransactionState.PREPARE_EPOCH_FENCE:
            return self._abort_fenced(metadata, target).then(
                lambda error: InitProducerIdResult(error or ErrorCode.CONCURRENT_TRANSACTIONS)
            )
        return self._append(metadata, target).then(
            lambda error: (
                InitProducerIdResult(error)
                if error
                else InitProducerIdResult(error, target.producer_id, target.producer_epoch)
            )
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: TransactionPartitions,
        *,
        client_version: int = 0,
    ) -> Pending[ErrorCode]:
        """Add partitions to the transaction of a producer, which they begin if none is open.

        client_version  2 for a transaction of version 2
        errors  INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, those of an
                append (`_store`)
        """
        metadata = self.ids.get(transactional_id)
        decision = decide_add_partitions(
            metadata,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=partitions,
            client_version=client_version,
            now_ms=self._context.clock.now_ms(),
        )
        if metadata is None or isinstance(decision, ErrorCode):
            return Pending.of(_error_of(decision))
        return self._append(metadata, decision)

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: TransactionPartitions,
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is in the transaction of a producer."""
        return verify_partitions(
            self.ids.get(transactional_id),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=partitions,
        )

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, is_commit: bool
    ) -> Pending[ErrorCode]:
        """Commit or abort; done once the outcome is replicated, before the markers are written.

        errors  as `add_partitions`, and INVALID_TXN_STATE
        """
        metadata = self.ids.get(transactional_id)
        decision = decide_end(
            metadata,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_commit=is_commit,
            now_ms=self._context.clock.now_ms(),
        )
        if metadata is None or isinstance(decision, ErrorCode):
            return Pending.of(_error_of(decision))
        return self._prepare_end(metadata, decision)

    def end_transaction_v2(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, is_commit: bool
    ) -> Pending[EndTxnResult]:
        """`end_transaction` of version 2: what the producer goes on with is in the result.

        raises  BrokerError COORDINATOR_LOAD_IN_PROGRESS when there is no producer id to go on with
        """
        metadata = self.ids.get(transactional_id)
        decision = decide_end_v2(
            metadata,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_commit=is_commit,
            new_producer_id=self._context.new_producer_id,
            now_ms=self._context.clock.now_ms(),
        )
        if metadata is None or isinstance(decision, ErrorCode):
            error = _error_of(decision)
            if error or metadata is None:
                return Pending.of(EndTxnResult(error))
            return Pending.of(EndTxnResult(error, *metadata.current.producer_after_end))
        after = decision.producer_after_end
        return self._prepare_end(metadata, decision).then(
            lambda error: EndTxnResult(error) if error else EndTxnResult(error, *after)
        )

    # Time-outs and periodic work.

    def abort_timed_out(self) -> Iterator[None]:
        """Abort what could not be aborted at its time-out."""
        for metadata in list(self.ids.values()):
            self._abort_if_timed_out(metadata)
            yield

    def _on_timed_out(self, metadata: TransactionMetadata) -> None:
        self._timed_out[metadata] = None
        if len(self._timed_out) == 1:
            self._context.run_between_requests(self._abort_all())

    def _abort_all(self) -> Iterator[None]:
        while self._timed_out:
            metadata = next(iter(self._timed_out))
            del self._timed_out[metadata]
            self._abort_if_timed_out(metadata)
            yield

    def _abort_if_timed_out(self, metadata: TransactionMetadata) -> None:
        """Abort a transaction that is open for too long, and fence its producer."""
        if self.is_closed or not is_timed_out(metadata, now_ms=self._context.clock.now_ms()):
            return
        logger.info(
            "%s: the transaction of %s is aborted after its time-out of %d ms",
            self,
            metadata.transactional_id,
            metadata.current.timeout_ms,
        )
        try:
            self._abort_fenced(metadata, decide_fence(metadata))
        except BrokerError as error:
            logger.warning("%s: %s cannot be aborted yet: %s", self, metadata, error)

    def remove_expired(self) -> Iterator[None]:
        """Remove ids that were not used for a long time."""
        now_ms = self._context.clock.now_ms()
        expiration_ms = self._context.settings.expiration_ms
        expired: list[TransactionMetadata] = []
        size_bytes = 0
        for metadata in list(self.ids.values()):
            if is_expired(metadata, expiration_ms=expiration_ms, now_ms=now_ms):
                metadata.prepare(metadata.current._replace(state=TransactionState.DEAD))
                expired.append(metadata)
                size_bytes += len(metadata.transactional_id)
                if len(expired) == EXPIRED_AT_ONCE or size_bytes >= EXPIRED_BYTES_MAX:
                    self._remove(expired)
                    expired, size_bytes = [], 0
            yield
        if expired:
            self._remove(expired)

    def _remove(self, expired: list[TransactionMetadata]) -> None:
        now_ms = self._context.clock.now_ms()
        tombstones = [
            transaction_record(metadata.transactional_id, None, now_ms) for metadata in expired
        ]

        def removed(error: ErrorCode) -> None:
            for metadata in expired:
                metadata.give_up()
                if not error and self.ids.get(metadata.transactional_id) is metadata:
                    del self.ids[metadata.transactional_id]
            if error:
                logger.warning("%s: expired ids cannot be removed: %s", self, error.name)

        self._store(tombstones, removed, timeout_ms=self._context.settings.append_ms)

    # Transitions.

    def _append(
        self,
        metadata: TransactionMetadata,
        target: TxnTransitMetadata,
        keeps_pending: Callable[[ErrorCode], bool] = lambda error: False,
    ) -> Pending[ErrorCode]:
        """Append a transition and apply it once it is replicated.

        keeps_pending  whether it stays pending after an error, since it is tried again
        """
        done: Pending[ErrorCode] = Pending()

        def replicated(error: ErrorCode) -> None:
            # Of a closed shard only the coordinator that has taken over knows the state.
            if self.is_closed:
                error = ErrorCode.NOT_COORDINATOR
            elif not error:
                metadata.complete(target)
                if target.state is TransactionState.ONGOING:
                    self._deadlines.watch(metadata)
            elif not keeps_pending(error):
                metadata.give_up()
            done.resolve(error)

        record = transaction_record(
            metadata.transactional_id,
            target,
            self._context.clock.now_ms(),
            transaction_version=self._context.transaction_version(),
        )
        self._store([record], replicated, timeout_ms=target.timeout_ms)
        return done

    def _store(
        self, records: Sequence[Record], call: Callable[[ErrorCode], None], *, timeout_ms: int
    ) -> None:
        """Append one uncompressed batch; `call` is called once, perhaps within this call.

        call  gets the error of the response: NONE, COORDINATOR_NOT_AVAILABLE (also when replicas do
              not have the batch within `timeout_ms`), NOT_COORDINATOR, UNKNOWN_SERVER_ERROR
        """

        def respond(error: ErrorCode) -> None:
            call(RESPONSE_ERRORS.get(error, error))

        written = self._writer.write(RecordBatch(memoryview(build_batch(records))))
        if written.error:
            respond(written.error)
        else:
            self._writer.when_replicated(written.last_offset, respond, timeout_ms=timeout_ms)

    def _abort_fenced(
        self, metadata: TransactionMetadata, fence: TxnTransitMetadata
    ) -> Pending[ErrorCode]:
        """Abort a transaction whose producer is fenced.

        raises  BrokerError when version 2 needs a producer id and there is none: nothing has
                changed then
        """
        context = self._context
        if context.transaction_version() >= TV_2:
            metadata.give_up()
            target = decide_abort_v2(
                metadata, new_producer_id=context.new_producer_id, now_ms=context.clock.now_ms()
            )
            return self._prepare_end(metadata, target)
        target = decide_abort_fenced(metadata, fence, now_ms=context.clock.now_ms())

        def note(error: ErrorCode) -> ErrorCode:
            if error and not self.is_closed:
                metadata.note_failed_fence()
            return error

        return self._prepare_end(metadata, target).then(note)

    def _prepare_end(
        self, metadata: TransactionMetadata, target: TxnTransitMetadata
    ) -> Pending[ErrorCode]:
        def decided(error: ErrorCode) -> ErrorCode:
            if not error:
                self._write_markers(metadata)
            return error

        return self._append(metadata, target).then(decided)

    def _write_markers(self, metadata: TransactionMetadata) -> None:
        current = metadata.current
        target = decide_complete(metadata, now_ms=self._context.clock.now_ms())
        self._markers.add(
            PendingMarkers(
                self,
                metadata.transactional_id,
                TxnMarker(
                    current.producer_id,
                    current.producer_epoch,
                    self.coordinator_epoch,
                    current.state is TransactionState.PREPARE_COMMIT,
                    current.client_version,
                ),
                current.partitions,
                on_marked=metadata.remove_partitions,
                on_complete=lambda: self._append_complete(metadata, target),
            )
        )

    def _append_complete(self, metadata: TransactionMetadata, target: TxnTransitMetadata) -> None:
        """Every partition has its marker."""

        def appended(done: Pending[ErrorCode]) -> None:
            error = done.result()
            if self._is_append_repeated(error):
                self._context.after(RETRY_MS, lambda: self._append_complete(metadata, target))
            elif error and error is not ErrorCode.NOT_COORDINATOR:
                logger.error("%s: %s cannot be completed: %s", self, metadata, error.name)

        if not self.is_closed:
            self._append(metadata, target, self._is_append_repeated).on_done(appended)

    def _is_append_repeated(self, error: ErrorCode) -> bool:
        """Whether what must be appended is appended again: a full disk, too, leaves the log online
        and led by this broker (NOT_COORDINATOR)."""
        if error is ErrorCode.NOT_COORDINATOR:
            return not self.is_closed and not self._writer.partition.log.is_offline
        return error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def _error_of(decision: TxnTransitMetadata | ErrorCode) -> ErrorCode:
    assert isinstance(decision, ErrorCode), "nothing is decided of an unknown id"
    return decision
