"""DescribeTransactions (key 65): the state of transactional ids.

Served: 0, introduced by KIP-664.
Differs from Kafka: an id that is named twice is described once.
Errors of an id: INVALID_REQUEST (an empty one), TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
Source: Kafka's TransactionCoordinator.handleDescribeTransactions.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import refused_names, require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.handlers.shared.transactional_ids import shard_of
from odradek.broker.security.acl.permission import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from odradek.runtime.work import pause


async def run(context: Context, request: DescribeTransactionsRequest) -> Reply:
    """Each id once: a description may be ten thousand times as large as a name."""
    described: list[TransactionState] = []
    for name in dict.fromkeys(request.transactional_ids):
        try:
            described.append(_describe(context, name))
        except BrokerError as error:
            described.append(_failed_id(name, error.code))
        await pause()
    return Reply(DescribeTransactionsResponse(transaction_states=described))


def _describe(context: Context, name: str) -> TransactionState:
    require(context, DESCRIBE_TRANSACTIONAL_ID, name)
    metadata = shard_of(context, name).ids.get(name)
    if metadata is None:
        raise BrokerError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    current = metadata.current
    topics: dict[str, TopicData] = {}
    refused = refused_names(context, DESCRIBE_TOPIC, [topic for topic, _ in current.partitions])
    for topic, index in current.partitions:
        if topic in refused:
            continue
        topics.setdefault(topic, TopicData(topic=topic, partitions=[])).partitions.append(index)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=name,
        transaction_state=current.state.kafka_name,
        transaction_timeout_ms=current.timeout_ms,
        transaction_start_time_ms=current.start_ms,
        producer_id=current.producer_id,
        producer_epoch=current.producer_epoch,
        topics=list(topics.values()),
    )


def _failed_id(name: str, code: ErrorCode) -> TransactionState:
    return TransactionState(
        error_code=code,
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def failed(
    request: DescribeTransactionsRequest, code: ErrorCode, message: str | None
) -> DescribeTransactionsResponse:
    """One error for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[_failed_id(name, code) for name in request.transactional_ids]
    )
