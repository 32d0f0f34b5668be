"""InitProducerId (key 22): an id and an epoch for an idempotent or a transactional producer.

Served: 0-5.
    0   introduced (KIP-98)
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
    3   a producer that has an id asks for the next epoch (KIP-360); without a transactional id it
        gets a new id
    4   the client understands PRODUCER_FENCED (KIP-588)
    5   the client understands TRANSACTION_ABORTABLE (KIP-890)
A transaction that another producer of the id has left open is aborted first: the response is
CONCURRENT_TRANSACTIONS, after which clients ask again.
Errors: INVALID_REQUEST (an empty transactional id, an id without an epoch),
    INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED (before version 4
    INVALID_PRODUCER_EPOCH), NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS (also: no block of ids within a second; clients retry).
Source: Kafka's KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply, top_level
from odradek.broker.handlers.shared.transactional_ids import error_for, shard_of
from odradek.broker.handlers.shared.waiting import wait_for
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.security.acl.permission import (
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from odradek.broker.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerIdResult,
    ProducerIdAndEpoch,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.runtime.pending import Pending

BLOCK_WAIT_MS: Final = 1_000
FENCED_FROM: Final = 4


failed = top_level(InitProducerIdResponse, producer_id=-1, producer_epoch=-1)


async def run(
    context: Context, request: InitProducerIdRequest, *, producer_ids: ProducerIds
) -> Reply | Delayed:
    """A new id with epoch 0, or what the coordinator of the transactional id decides."""
    _authorize(context, request.transactional_id)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return await _run_transactional(context, request, producer_ids)
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


def _authorize(context: Context, transactional_id: str | None) -> None:
    """An idempotent producer needs IDEMPOTENT_WRITE, or a topic that it may write to (KIP-679)."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return
    if transactional_id is not None:
        require(context, WRITE_TRANSACTIONAL_ID, transactional_id)
    elif not (
        authorizer.authorize(context, IDEMPOTENT_WRITE, log_if_denied=False)
        or authorizer.authorize_by_resource_type(context, WRITE_TOPIC)
    ):
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def _run_transactional(
    context: Context, request: InitProducerIdRequest, producer_ids: ProducerIds
) -> Reply | Delayed:
    name = request.transactional_id or ""
    if name and not 0 < request.transaction_timeout_ms <= _timeout_max_ms(context):
        raise BrokerError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)

    def ask() -> Pending[InitProducerIdResult]:
        return shard_of(context, name).init_producer_id(
            name,
            timeout_ms=request.transaction_timeout_ms,
            expected=expected,
            new_producer_id=producer_ids.take,
        )

    def respond(result: InitProducerIdResult) -> InitProducerIdResponse:
        knows_fenced = context.version >= FENCED_FROM
        return InitProducerIdResponse(
            error_code=error_for(result.error, knows_fenced=knows_fenced),
            producer_id=result.producer_id,
            producer_epoch=result.producer_epoch,
        )

    decided: Pending[InitProducerIdResult] | None = None
    try:
        decided = ask()
    except BrokerError as refusal:
        allocation = producer_ids.allocation
        if refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or allocation is None:
            raise
    if decided is not None:
        return Reply(respond(await decided))
    assert allocation is not None, "a block of ids is being asked for"
    asked: Pending[InitProducerIdResult] = Pending()

    def ask_again(_: Pending[None]) -> None:
        try:
            ask().on_done(asked.settle_as)
        except BrokerError as error:
            asked.resolve(InitProducerIdResult(error.code))

    allocation.on_done(ask_again)
    late = failed(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    return wait_for(context, asked, BLOCK_WAIT_MS, respond=respond, expire=lambda: late)


def _timeout_max_ms(context: Context) -> int:
    return context.services.transactions.settings.timeout_max_ms


def _given(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
    )
