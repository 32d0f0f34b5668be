"""InitProducerId (key 22): an id for an idempotent producer.

Served: 0-5, without a transactional id.
    0   introduced (KIP-98)
    2   flexible encoding (KIP-482)
    3   a producer that has an id asks for the next epoch (KIP-360); it gets a new id here
    4   the client understands PRODUCER_FENCED (KIP-588)
    5   the client understands TRANSACTION_ABORTABLE (KIP-890)
Not done: transactions (NOT_DONE.md).
Errors: INVALID_REQUEST (an empty transactional id, an id without an epoch),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED (a transactional id: the error that ends the retries of
    every client), COORDINATOR_LOAD_IN_PROGRESS (no block of ids within a second; clients retry).
Source: Kafka's TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.handler import Context, Delayed, Reply
from odradek.broker.handlers.waiting import wait_for
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
BLOCK_WAIT_MS: Final = 1_000


def run(context: Context, request: InitProducerIdRequest) -> Reply | Delayed:
    """A new id with epoch 0, whether or not the producer has one."""
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
    return wait_for(
        context,
        asked,
        BLOCK_WAIT_MS,
        respond=lambda _: _given(producer_ids.take()),
        expire=lambda: late,
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
