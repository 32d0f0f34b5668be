"""InitProducerId (key 22): an id for an idempotent producer.

Served: 0-5, without a transactional id.
Errors: INVALID_REQUEST (an empty transactional id, an id without an epoch),
    COORDINATOR_NOT_AVAILABLE (transactions, see NOT_DONE.md), COORDINATOR_LOAD_IN_PROGRESS (no
    block of ids yet; clients try again).
Source: KIP-98, KIP-360; Kafka's TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import Final

from broker.handlers.handler import Context, Reply
from protocol.errors import BrokerError, ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1


def run(context: Context, request: InitProducerIdRequest) -> Reply:
    """A fresh id with epoch 0, whatever the producer had before."""
    if request.transactional_id is not None:
        empty = request.transactional_id == ""
        code = ErrorCode.INVALID_REQUEST if empty else ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise BrokerError(code)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    producer_id = context.services.producer_ids.take()
    return Reply(
        InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
    )


def failed(
    request: InitProducerIdRequest, code: ErrorCode, message: str | None
) -> InitProducerIdResponse:
    """A top-level error."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
