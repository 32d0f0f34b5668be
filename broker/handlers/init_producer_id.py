"""InitProducerId (key 22): an id for an idempotent producer.

Served: 0-5, without a transactional id.
Errors: INVALID_REQUEST (an empty transactional id, an id without an epoch),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED (transactions, see NOT_DONE.md: the error that ends every
    client's retries), COORDINATOR_LOAD_IN_PROGRESS (no block of ids within a second; clients try
    again).
Source: KIP-98, KIP-360; Kafka's TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.handler import Context, Delayed, Reply
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
BLOCK_WAIT_MS: Final = 1_000


def run(context: Context, request: InitProducerIdRequest) -> Reply | Delayed:
    """A fresh id with epoch 0, whatever the producer had before."""
    if request.transactional_id is not None:
        if request.transactional_id == "":
            raise BrokerError(ErrorCode.INVALID_REQUEST)
        context.services.refused_transactions.log(
            request.transactional_id,
            client_id=context.client_id,
            client_host=context.client_host,
            monotonic_ms=context.services.clock.monotonic_ms(),
        )
        raise BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    producer_ids = context.services.producer_ids
    try:
        return Reply(_given(producer_ids.take()))
    except BrokerError as refusal:
        asked = producer_ids.allocation
        if asked is None:
            raise
        late = failed(request, refusal.code, None)
    return when_done(
        context,
        asked,
        BLOCK_WAIT_MS,
        answer=lambda _: _given(producer_ids.take()),
        late=lambda: late,
    )


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
    )


def failed(
    request: InitProducerIdRequest, code: ErrorCode, message: str | None
) -> InitProducerIdResponse:
    """A top-level error."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
