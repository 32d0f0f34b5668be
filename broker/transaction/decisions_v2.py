"""Decides the end of a transaction of version 2 (KIP-890), which raises the producer's epoch.

So an EndTxn that arrives late carries an old epoch and cannot end the next transaction.  When the
epochs are exhausted, the producer goes on with another id and epoch 0.

Pure.  Source: Kafka 4.3's TransactionCoordinator.endTransaction, TransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.broker.transaction.decisions import TransactionDecision
from odradek.broker.transaction.metadata import (
    EPOCH_MAX,
    LAST_EPOCH,
    NO_PRODUCER_ID,
    TV_2,
    TransactionMetadata,
    TxnTransitMetadata,
)
from odradek.broker.transaction.state import TransactionState
from odradek.protocol.errors import ErrorCode

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
    return _prepare_end(
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
    return _prepare_end(metadata, is_commit=False, new_producer_id=new_producer_id, now_ms=now_ms)


def _prepare_end(
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
