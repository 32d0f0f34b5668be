"""DescribeProducers (key 61): the idempotent producers whose state a partition has.

Served: 0, introduced by KIP-664.
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
Differs from Kafka: a partition that is named twice is described once.
Source: Kafka's ReplicaManager.activeProducerState.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import READ_TOPIC
from odradek.broker.topics import is_valid_topic_name
from odradek.protocol.errors import ERROR_TEXTS, ErrorCode
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from odradek.runtime.work import pause

PRODUCERS_PER_STEP: Final = 64


async def run(context: Context, request: DescribeProducersRequest) -> Reply:
    """From this broker's own state, whether or not it leads."""
    topics: dict[str, TopicResponse] = {}
    described: dict[tuple[str, int], None] = {}
    for topic in request.topics:
        response = topics.setdefault(topic.name, TopicResponse(name=topic.name, partitions=[]))
        for index in topic.partition_indexes:
            if (topic.name, index) not in described:
                described[topic.name, index] = None
                response.partitions.append(await _describe(context, topic.name, index))
            await pause()
    return Reply(DescribeProducersResponse(topics=list(topics.values())))


def failed(
    request: DescribeProducersRequest, code: ErrorCode, message: str | None
) -> DescribeProducersResponse:
    """One error for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(
                        partition_index=index,
                        error_code=code,
                        error_message=message,
                        active_producers=[],
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


async def _describe(context: Context, topic: str, index: int) -> PartitionResponse:
    if is_valid_topic_name(topic) and not is_authorized(context, READ_TOPIC, topic):
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return PartitionResponse(
            partition_index=index,
            error_code=refused,
            error_message=ERROR_TEXTS[refused],
            active_producers=[],
        )
    partition = context.services.partitions.get(topic, index)
    if partition is None:
        topics = context.services.topics
        code = topics.absence(topic, index)
        return PartitionResponse(
            partition_index=index,
            error_code=code,
            error_message=ERROR_TEXTS.get(code) if topics.view(topic) is None else None,
            active_producers=[],
        )
    active: list[ProducerState] = []
    for entry in list(partition.log.producer_states.active_producers()):
        active.append(
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp_ms=entry.last_timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
        )
        if len(active) % PRODUCERS_PER_STEP == 0:
            await pause()
    return PartitionResponse(
        partition_index=index, error_code=ErrorCode.NONE, active_producers=active
    )
