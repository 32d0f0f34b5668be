"""OffsetDelete (key 47): deletes a group's committed offsets of topics that it does not consume.

Served: 0 (KIP-496).
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members that are not consumers).
Partition errors: UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC.
Source: Kafka's GroupCoordinator.handleDeleteOffsets.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from odradek.broker.group.group import Group
from odradek.broker.handlers.shared.authorization import refused_names, require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import DELETE_GROUP, READ_TOPIC
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from odradek.runtime.work import pause

failed = top_level(OffsetDeleteResponse)
"""A top-level error, no topics."""


async def run(context: Context, request: OffsetDeleteRequest) -> Reply:
    """The offsets are deleted at once; the response waits until that is replicated."""
    require(context, DELETE_GROUP, request.group_id)
    refused = refused_names(context, READ_TOPIC, [topic.name for topic in request.topics])
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            error = context.services.topics.absence(*key)
            if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name not in refused:
                errors[key] = error
            await pause()
    refusal = await _delete(context, request, errors)
    if refusal:
        return Reply(failed(request, refusal, None))
    return Reply(await _respond(request, errors, refused))


def _delete(
    context: Context, request: OffsetDeleteRequest, errors: dict[TopicPartition, ErrorCode]
) -> Pending[ErrorCode]:
    """errors  of the partitions that exist"""
    shard = context.services.groups.shard_of(request.group_id)
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    if group is None:
        raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.has_other_members():
        raise BrokerError(ErrorCode.NON_EMPTY_GROUP)
    _check_group(errors, group)
    partitions = [partition for partition, error in errors.items() if not error]
    return shard.delete_offsets(group, partitions)


def _check_group(errors: dict[TopicPartition, ErrorCode], group: Group) -> None:
    """Replace the error of each partition by the one of the group."""
    by_topic: dict[str, ErrorCode] = {}
    for partition in errors:
        topic = partition.topic
        if topic not in by_topic:
            by_topic[topic] = group.check_offset_deletion(topic)
        errors[partition] = by_topic[topic]


async def _respond(
    request: OffsetDeleteRequest,
    errors: Mapping[TopicPartition, ErrorCode],
    refused: Container[str],
) -> OffsetDeleteResponse:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in request.topics:
        absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name in refused:
            absent = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for partition in topic.partitions:
            index = partition.partition_index
            topics.setdefault(
                topic.name, OffsetDeleteResponseTopic(name=topic.name, partitions=[])
            ).partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=index,
                    error_code=errors.get(TopicPartition(topic.name, index), absent),
                )
            )
            await pause()
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=list(topics.values()))
