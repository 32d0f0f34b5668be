"""DescribeTopicPartitions (key 75): the partitions of topics, page by page.

Served: 0, introduced by KIP-966.  A 3.9 broker in ZooKeeper mode does not list this API; newer
admin clients use it where it is listed.
Not done: eligible leader replicas (KIP-966) are not tracked; both lists are empty.
Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    TOPIC_AUTHORIZATION_FAILED.  Of the request:
    INVALID_REQUEST (a partition limit below 1, a cursor that names no partition).
Source: Kafka's DescribeTopicPartitionsRequestHandler.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop

from odradek.broker.handlers.shared.authorization import authorized_operations, is_authorized
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_TOPIC
from odradek.broker.topics import PartitionView, TopicView, is_valid_topic_name
from odradek.protocol.acl import ResourceType
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.work import pause


async def run(context: Context, request: DescribeTopicPartitionsRequest) -> Reply:
    """Topics in the order of their names, from the cursor on, up to the limit of partitions."""
    if request.response_partition_limit < 1:
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    topics = context.services.topics
    names = await _names(request, topics.names())
    # As a heap they are sorted while they are described, not in one step before.
    heapify(names)
    first = 0
    if cursor is not None and names and names[0] == cursor.topic_name:
        first = cursor.partition_index
    left = min(
        request.response_partition_limit, context.services.settings.max_request_partition_size_limit
    )
    described: list[DescribeTopicPartitionsResponseTopic] = []
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
    while names:
        name = heappop(names)
        await pause()
        if not is_authorized(context, DESCRIBE_TOPIC, name):
            if request.topics:
                refused.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        view = topics.view(name)
        if view is None:
            described.append(_absent(name))
            continue
        if left == 0:
            next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        shown = view.partitions[first : first + left]
        described.append(_topic(context, view, shown, request))
        left -= len(shown)
        if first + len(shown) < len(view.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=first + len(shown))
            break
        first = 0
    topics_described = described + refused
    return Reply(DescribeTopicPartitionsResponse(topics=topics_described, next_cursor=next_cursor))


async def _names(request: DescribeTopicPartitionsRequest, all_names: Collection[str]) -> list[str]:
    """The topics that are named, or all that are known, each once, from the cursor on."""
    start = "" if request.cursor is None else request.cursor.topic_name
    names: dict[str, None] = {}
    if not request.topics:
        names = {name: None for name in all_names if name >= start}
    for topic in request.topics:
        if topic.name >= start:
            names[topic.name] = None
        await pause()
    return list(names)


def failed(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, message: str | None
) -> DescribeTopicPartitionsResponse:
    """One error for every topic named."""
    return DescribeTopicPartitionsResponse(
        topics=[_refused(topic.name, code) for topic in request.topics], next_cursor=None
    )


def _absent(name: str) -> DescribeTopicPartitionsResponseTopic:
    if is_valid_topic_name(name):
        return _refused(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _refused(name, ErrorCode.INVALID_TOPIC_EXCEPTION)


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=ZERO_UUID, is_internal=False, partitions=[]
    )


def _topic(
    context: Context,
    view: TopicView,
    shown: tuple[PartitionView, ...],
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponseTopic:
    live = {node_id for node_id, *_ in context.services.topics.brokers(context.listener_name)}
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=view.name,
        topic_id=view.topic_id,
        is_internal=view.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE
                if part.leader in live
                else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=part.index,
                leader_id=part.leader if part.leader in live else -1,
                leader_epoch=part.leader_epoch,
                replica_nodes=list(part.replicas),
                isr_nodes=list(part.isr),
                # Null is allowed by the schema, but the Java admin client cannot read it.
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(part.offline_replicas),
            )
            for part in shown
        ],
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, view.name),
    )
