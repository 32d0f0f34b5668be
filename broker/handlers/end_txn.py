"""EndTxn (key 26): commits or aborts the transaction of a producer.

Served: 0-5.
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   the client understands PRODUCER_FENCED (KIP-588)
    3   flexible encoding (KIP-482)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890): no effect
    5   ends a transaction of version 2: the producer goes on with the id and epoch of the response
        (KIP-890); an abort of nothing raises the epoch too
The response is sent once the outcome is replicated; markers are written afterwards.
Errors: INVALID_REQUEST (an empty id), INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (before version
    2 INVALID_PRODUCER_EPOCH), CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
Source: Kafka's KafkaApis.handleEndTxnRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.handlers.shared.transactional_ids import error_for, shard_of
from odradek.broker.security.acl.permission import WRITE_TRANSACTIONAL_ID
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_FROM: Final = 2
BUMPS_EPOCH_FROM: Final = 5


failed = top_level(EndTxnResponse)


async def run(context: Context, request: EndTxnRequest) -> Reply:
    """Waits until the outcome is replicated."""
    require(context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    shard = shard_of(context, request.transactional_id)
    if context.version >= BUMPS_EPOCH_FROM:
        result = await shard.end_transaction_v2(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            is_commit=request.committed,
        )
        return Reply(
            EndTxnResponse(
                error_code=result.error,
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )
        )
    error = await shard.end_transaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        is_commit=request.committed,
    )
    code = error_for(error, knows_fenced=context.version >= FENCED_FROM)
    return Reply(EndTxnResponse(error_code=code))
