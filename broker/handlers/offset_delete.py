"""OffsetDelete (key 47): a group forgets its offsets of topics that it does not consume.

Served: 0.
Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members that are no consumers).
Partition errors: UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC.
Source: KIP-496; Kafka's GroupCoordinator.handleDeleteOffsets.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.state import Group, TopicPartition
from odradek.broker.group.offsets import CONSUMER, deletable
from odradek.broker.handlers.handler import Context, Delayed, Reply, Steps
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

WAIT_MAX_MS: Final = 2**31 - 1
"""The coordinator's own time-out (offsets.commit.timeout.ms) comes before it."""


def run(context: Context, request: OffsetDeleteRequest) -> Steps[Reply | Delayed]:
    """What may go is gone at once; the answer waits until that is durable."""
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            place = (topic.name, partition.partition_index)
            errors[place] = context.services.topics.absence(*place)
            yield None
    return _delete(context, request, errors)


def _delete(
    context: Context, request: OffsetDeleteRequest, errors: dict[TopicPartition, ErrorCode]
) -> Reply | Delayed:
    shard = context.services.groups.shard_of(request.group_id)
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    if group is None:
        raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty() and group.consumer is None and group.protocol_type != CONSUMER:
        raise BrokerError(ErrorCode.NON_EMPTY_GROUP)
    _forbid(errors, group)
    places = [place for place, error in errors.items() if not error]
    response = _respond(request, errors)
    pending = shard.delete_offsets(group, places)

    def answer(error: ErrorCode) -> OffsetDeleteResponse:
        if error:
            return failed(request, error, None)
        return response

    if pending.is_done:
        return Reply(answer(pending.result()))
    return when_done(
        context,
        pending,
        WAIT_MAX_MS,
        answer=answer,
        late=lambda: failed(request, ErrorCode.REQUEST_TIMED_OUT, None),
    )


def _forbid(errors: dict[TopicPartition, ErrorCode], group: Group) -> None:
    """Put the group's own reasons in the place of those that say where a partition is."""
    by_topic: dict[str, ErrorCode] = {}
    for place, error in errors.items():
        if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic = place[0]
            if topic not in by_topic:
                by_topic[topic] = deletable(group, topic)
            errors[place] = by_topic[topic]


def _respond(
    request: OffsetDeleteRequest, errors: dict[TopicPartition, ErrorCode]
) -> OffsetDeleteResponse:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            index = partition.partition_index
            topics.setdefault(
                topic.name, OffsetDeleteResponseTopic(name=topic.name, partitions=[])
            ).partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=index, error_code=errors[topic.name, index]
                )
            )
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=list(topics.values()))


def failed(
    request: OffsetDeleteRequest, code: ErrorCode, message: str | None
) -> OffsetDeleteResponse:
    """A top-level error, no topics."""
    return OffsetDeleteResponse(error_code=code, topics=[])
