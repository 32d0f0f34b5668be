"""ListTransactions (key 66): the transactional ids that this broker coordinates.

Served: 0-2, introduced by KIP-664.
    1   filter by the time since the transaction began (KIP-994)
    2   filter by a pattern that the whole id must match (KIP-1152)
Errors: COORDINATOR_LOAD_IN_PROGRESS, INVALID_REGULAR_EXPRESSION.
Source: Kafka's TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.consumer.subscription_regex import TopicRegex
from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import DESCRIBE_TRANSACTIONAL_ID
from odradek.broker.transaction.metadata import BY_NAME
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from odradek.runtime.work import pause

IDS_PER_STEP: Final = 64


failed = top_level(ListTransactionsResponse)


async def run(context: Context, request: ListTransactionsRequest) -> Reply:
    """All ids, or those with certain states and producers, and transactions of a certain age."""
    shards = list(context.services.transactions.shards.values())
    if any(shard.is_loading for shard in shards):
        raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pattern = request.transactional_id_pattern
    regex = TopicRegex(pattern) if pattern else None
    names = dict.fromkeys(request.state_filters)
    producer_ids = dict.fromkeys(request.producer_id_filters)
    started_before_ms = context.now_ms - request.duration_filter_ms
    has_duration = request.duration_filter_ms >= 0
    listed: list[TransactionState] = []
    for shard in shards:
        for number, metadata in enumerate(list(shard.ids.values())):
            current = metadata.current
            if (
                (not producer_ids or current.producer_id in producer_ids)
                and (not names or current.state.kafka_name in names)
                and (not has_duration or current.start_ms < started_before_ms)
                and (regex is None or regex.matches(metadata.transactional_id))
                and is_authorized(context, DESCRIBE_TRANSACTIONAL_ID, metadata.transactional_id)
            ):
                listed.append(
                    TransactionState(
                        transactional_id=metadata.transactional_id,
                        producer_id=current.producer_id,
                        transaction_state=current.state.kafka_name,
                    )
                )
            # A match with the worst of patterns takes 7 ms.
            if regex is not None or number % IDS_PER_STEP == 0:
                await pause()
    return Reply(
        ListTransactionsResponse(
            error_code=ErrorCode.NONE,
            unknown_state_filters=[name for name in names if name not in BY_NAME],
            transaction_states=listed,
        )
    )
