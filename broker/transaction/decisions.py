"""Decides what a request does to a transactional id: a transition to append, or an error.

Pure.  ErrorCode.NONE: there is nothing to append, the response is a success.

The end of a transaction of version 2 (KIP-890) raises the producer's epoch, so an EndTxn that
arrives late carries an old epoch and cannot end the next transaction.  When the epochs are
exhausted, the producer goes on with another id and epoch 0.
Source: Kafka 3.9's TransactionCoordinator and TransactionMetadata; 4.3's for version 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.broker.transaction.metadata import (
    EPOCH_MAX,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_START_MS,
    TV_2,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionPartitions,
    TransactionState,
    TxnTransitMetadata,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition

TransactionDecision = TxnTransitMetadata | ErrorCode


def decide_init_producer_id(
    metadata: TransactionMetadata,
    *,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> TransactionDecision:
    """A producer begins, or continues after an error (KIP-360).

    1. A transition is pending, or markers are missing: CONCURRENT_TRANSACTIONS.
    2. `expected` belongs to a producer that another one has replaced: PRODUCER_FENCED.
    3. A transaction is open: PrepareEpochFence, after which it must be aborted.
    4. The epochs are exhausted: another producer id, with epoch 0.
    5. The next epoch.

    new_producer_id  called in case 4; what it raises is raised before anything has changed
    """
    current = metadata.current
    if metadata.pending_state is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _is_known(current, expected):
        return ErrorCode.PRODUCER_FENCED
    if current.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is TransactionState.ONGOING:
        return decide_fence(metadata)
    if current.is_epoch_exhausted and (
        expected is None or expected.producer_epoch == current.producer_epoch
    ):
        last_epoch = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
        return metadata.prepare(
            _empty(current, timeout_ms, now_ms)._replace(
                producer_id=new_producer_id(),
                last_producer_id=current.producer_id,
                producer_epoch=0,
                last_producer_epoch=last_epoch,
            )
        )
    epochs = _next_epochs(current, None if expected is None else expected.producer_epoch)
    if epochs is None:
        return ErrorCode.PRODUCER_FENCED
    producer_epoch, last_epoch = epochs
    return metadata.prepare(
        _empty(current, timeout_ms, now_ms)._replace(
            last_producer_id=current.producer_id,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_epoch,
        )
    )


def _empty(current: TxnTransitMetadata, timeout_ms: int, now_ms: int) -> TxnTransitMetadata:
    return current._replace(
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions={},
        start_ms=NO_START_MS,
        last_update_ms=now_ms,
    )


def _is_known(current: TxnTransitMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether a producer is the current one, or the one before a rotation of the producer id."""
    return (
        current.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == current.producer_id
        or (
            expected.producer_id == current.last_producer_id
            and expected.producer_epoch >= LAST_EPOCH
        )
    )


def _next_epochs(current: TxnTransitMetadata, expected: int | None) -> tuple[int, int] | None:
    """The epoch and the last epoch of the next producer; None: it is fenced."""
    epoch = current.producer_epoch
    if expected is None:
        return epoch + 1, NO_PRODUCER_EPOCH
    if epoch == NO_PRODUCER_EPOCH or expected == epoch:
        return epoch + 1, epoch
    if expected == current.last_producer_epoch:
        # Its request is repeated: the response to the first one was lost.
        return epoch, current.last_producer_epoch
    return None


def decide_fence(metadata: TransactionMetadata) -> TxnTransitMetadata:
    """Raise the epoch above that of the producer whose transaction is to be aborted."""
    current = metadata.current
    epoch = current.producer_epoch + (not metadata.has_failed_epoch_fence)
    return metadata.prepare(
        current._replace(
            last_producer_id=current.producer_id,
            # Kafka 4.0 may have stored the highest epoch; no producer has it.
            producer_epoch=min(epoch, EPOCH_MAX),
            last_producer_epoch=NO_PRODUCER_EPOCH,
            state=TransactionState.PREPARE_EPOCH_FENCE,
        )
    )


def _producer_error(
    metadata: TransactionMetadata | None, producer_id: int, producer_epoch: int
) -> ErrorCode:
    if metadata is None or metadata.current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.current.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def decide_add_partitions(
    metadata: TransactionMetadata | None,
    *,
    producer_id: int,
    producer_epoch: int,
    partitions: TransactionPartitions,
    client_version: int,
    now_ms: int,
) -> TransactionDecision:
    """Begin a transaction, or add partitions to it.

    client_version  2 for a transaction of version 2, else 0
    """
    is_v2 = client_version >= TV_2
    if is_v2 and metadata is not None and metadata.pending_state is not None:
        # The producer knows its next id before the transition to it is applied.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error = _producer_error(metadata, producer_id, producer_epoch)
    if error or metadata is None:
        return error
    current = metadata.current
    if metadata.pending_state is not None or current.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_ongoing = current.state is TransactionState.ONGOING
    if is_ongoing and all(partition in current.partitions for partition in partitions):
        return ErrorCode.NONE
    return metadata.prepare(
        current._replace(
            last_producer_id=current.producer_id,
            state=TransactionState.ONGOING,
            partitions={**current.partitions, **partitions},
            start_ms=current.start_ms if is_ongoing else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )
    )


def verify_partitions(
    metadata: TransactionMetadata | None,
    *,
    producer_id: int,
    producer_epoch: int,
    partitions: TransactionPartitions,
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the transaction (KIP-890), else TRANSACTION_ABORTABLE."""
    error = _producer_error(metadata, producer_id, producer_epoch)
    if error or metadata is None:
        return dict.fromkeys(partitions, error)
    if metadata.current.state.is_prepared:
        return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
    added = metadata.current.partitions
    return {
        partition: ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def decide_end(
    metadata: TransactionMetadata | None,
    *,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    now_ms: int,
) -> TransactionDecision:
    """The producer ends its transaction."""
    error = _producer_error(metadata, producer_id, producer_epoch)
    if error or metadata is None:
        return error
    if metadata.pending_state is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    state = metadata.current.state
    if state is TransactionState.ONGOING:
        return _prepare_end(metadata, is_commit=is_commit, now_ms=now_ms)
    return _REPEATED_END.get((state, is_commit), ErrorCode.INVALID_TXN_STATE)


_REPEATED_END = {
    (TransactionState.PREPARE_COMMIT, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.PREPARE_ABORT, False): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.NONE,
}
"""(state, whether EndTxn commits) -> the error of an EndTxn that was sent before."""


def decide_abort_fenced(
    metadata: TransactionMetadata, fence: TxnTransitMetadata, *, now_ms: int
) -> TxnTransitMetadata:
    """Abort the transaction of a producer that is fenced; from here on its requests fail."""
    metadata.fence_epoch(fence)
    return _prepare_end(metadata, is_commit=False, now_ms=now_ms)


def _prepare_end(
    metadata: TransactionMetadata, *, is_commit: bool, now_ms: int
) -> TxnTransitMetadata:
    current = metadata.current
    state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    return metadata.prepare(
        current._replace(
            last_producer_id=current.producer_id,
            state=state,
            last_update_ms=now_ms,
            client_version=0,
        )
    )


def decide_complete(metadata: TransactionMetadata, *, now_ms: int) -> TxnTransitMetadata:
    """Decide the transition after every partition has its marker."""
    current = metadata.current
    is_commit = current.state is TransactionState.PREPARE_COMMIT
    producer_id, producer_epoch = current.producer_after_end
    return metadata.prepare_complete(
        current._replace(
            producer_id=producer_id,
            last_producer_id=current.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=producer_epoch,
            state=TransactionState.COMPLETE_COMMIT
            if is_commit
            else TransactionState.COMPLETE_ABORT,
            partitions={},
            last_update_ms=now_ms,
        )
    )


def is_timed_out(metadata: TransactionMetadata, *, now_ms: int) -> bool:
    """Whether a transaction is open for longer than its producer allows."""
    current = metadata.current
    return (
        metadata.pending_state is None
        and current.state is TransactionState.ONGOING
        and current.start_ms + current.timeout_ms < now_ms
    )


def is_expired(metadata: TransactionMetadata, *, expiration_ms: int, now_ms: int) -> bool:
    """Whether an id was not used for so long that it is removed."""
    current = metadata.current
    return (
        metadata.pending_state is None
        and current.state.is_idle
        and current.last_update_ms <= now_ms - expiration_ms
    )


_OUTCOMES: Final = (
    (TransactionState.COMPLETE_COMMIT, True),
    (TransactionState.COMPLETE_ABORT, False),
)
"""(state, whether EndTxn commits)"""


def decide_end_v2(
    metadata: TransactionMetadata | None,
    *,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> TransactionDecision:
    """The producer ends its transaction, or raises its epoch by an abort of nothing.

    1. A transition is pending, or markers are missing: CONCURRENT_TRANSACTIONS.
    2. Another producer id: INVALID_PRODUCER_ID_MAPPING.  Another epoch: PRODUCER_FENCED.
    3. The end of the last transaction is repeated: a success, if it was this one.
    4. No transaction is open: a commit is INVALID_TXN_STATE.
    5. The transaction, or nothing, is ended.

    new_producer_id  called in case 5 when the epochs are exhausted; what it raises is raised before
                     anything has changed
    """
    if metadata is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    current = metadata.current
    state = current.state
    if metadata.pending_state is not None or state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if _is_repeated(current, producer_id, producer_epoch):
        is_same = (state, is_commit) in _OUTCOMES
        return ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE
    if producer_id != current.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != current.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if is_commit and state is not TransactionState.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    return _prepare_end_v2(
        metadata, is_commit=is_commit, new_producer_id=new_producer_id, now_ms=now_ms
    )


def _is_repeated(current: TxnTransitMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Whether an EndTxn is that of the last transaction, as sent before its response arrived.

    Differs from Kafka, which does not ask for the version: there, a producer that is fenced by one
    of version 1 gets the epoch of that one.
    """
    if current.state not in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return False
    if current.client_version < TV_2:
        return False
    if producer_id == current.producer_id:
        return producer_epoch + 1 == current.producer_epoch
    is_rotated = current.producer_epoch == 0 and producer_epoch == LAST_EPOCH
    return is_rotated and producer_id == current.last_producer_id


def decide_abort_v2(
    metadata: TransactionMetadata, *, new_producer_id: Callable[[], int], now_ms: int
) -> TxnTransitMetadata:
    """Abort an open transaction; its producer is fenced by the next epoch.

    new_producer_id  as in `decide_end_v2`
    """
    return _prepare_end_v2(
        metadata, is_commit=False, new_producer_id=new_producer_id, now_ms=now_ms
    )


def _prepare_end_v2(
    metadata: TransactionMetadata,
    *,
    is_commit: bool,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> TxnTransitMetadata:
    current = metadata.current
    is_ongoing = current.state is TransactionState.ONGOING
    return metadata.prepare(
        current._replace(
            last_producer_id=current.producer_id,
            next_producer_id=new_producer_id() if current.is_epoch_exhausted else NO_PRODUCER_ID,
            producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=current.producer_epoch,
            state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            start_ms=current.start_ms if is_ongoing else now_ms,
            last_update_ms=now_ms,
            client_version=TV_2,
        )
    )
