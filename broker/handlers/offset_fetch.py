"""OffsetFetch (key 9): returns committed offsets of groups.

Served: 1-9.
    2   all partitions (null topics), an error for the group
    3   throttle time, which is always 0
    4   the client waits for the throttle time itself (KIP-219); it is always 0
    5   leader epoch of the offset (KIP-320)
    6   flexible encoding (KIP-482)
    7   require_stable: UNSTABLE_OFFSET_COMMIT for open transactions (KIP-447)
    8   several groups (KIP-709)
    9   member id and member epoch of consumer groups (KIP-848)
Not served: 0, which reads from ZooKeeper; 10, topic ids in place of names (KIP-516).
Errors, for a group (before v2 for each partition): COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR; from v9 on, in consumer groups,
    UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION (classic members).
Partition errors: UNSTABLE_OFFSET_COMMIT (v7).
A partition without a committed offset has offset -1 and no error.
Differs from Kafka: all offsets of a group are returned once even if the request names it several
    times, since they may be a thousand times as large as its name.
Source: Kafka's KafkaApis.handleOffsetFetchRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.consumer.offsets import check_fetch
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.offsets import GroupOffsets, OffsetAndMetadata
from odradek.broker.handlers.handler import Context, Reply, Steps
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.topic_partition import TopicPartition

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8
NOTHING: Final = OffsetAndMetadata(-1, -1, "", -1)

Topics = list[tuple[str, list[tuple[int, OffsetAndMetadata, ErrorCode]]]]
FETCHED_PER_STEP: Final = 16
RequestedTopics = list[OffsetFetchRequestTopics] | list[OffsetFetchRequestTopic] | None


def run(context: Context, request: OffsetFetchRequest) -> Steps[Reply]:
    if context.version < GROUPS_FROM:
        try:
            topics = yield from _fetch(
                context, request.group_id, request.topics, request.require_stable
            )
        except BrokerError as error:
            return Reply(_failed_group(request, error.code, context.version))
        return Reply(_of_one(topics))
    groups: list[OffsetFetchResponseGroup] = []
    whole: dict[str, None] = {}
    for group in request.groups:
        if group.topics is None:
            if group.group_id in whole:
                continue
            whole[group.group_id] = None
        found = yield from _of_group(context, group, request.require_stable)
        groups.append(found)
        yield None
    return Reply(OffsetFetchResponse(groups=groups))


def failed(
    request: OffsetFetchRequest, code: ErrorCode, message: str | None
) -> OffsetFetchResponse:
    """The error for each group, in the fields of all versions."""
    response = _failed_group(request, code, TOP_LEVEL_ERROR_FROM)
    response.groups = [
        OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
        for group in request.groups
    ]
    return response


def _failed_group(
    request: OffsetFetchRequest, code: ErrorCode, version: int
) -> OffsetFetchResponse:
    if version >= TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(error_code=code)
    requested = request.topics or []
    return _of_one(
        [
            (topic.name, [(index, NOTHING, code) for index in topic.partition_indexes])
            for topic in requested
        ]
    )


def _fetch(
    context: Context, group_id: str, requested: RequestedTopics, require_stable: bool
) -> Steps[Topics]:
    shard = context.services.groups.shard_of(group_id)
    wanted: list[TopicPartition] | None = None
    if requested is not None:
        wanted = [
            TopicPartition(topic.name, index)
            for topic in requested
            for index in topic.partition_indexes
        ]
    by_topic: dict[str, list[tuple[int, OffsetAndMetadata, ErrorCode]]] = {}
    group = shard.groups.get(group_id)
    offsets = GroupOffsets() if group is None else group.offsets
    for number, found in enumerate(offsets.fetch(wanted, require_stable=require_stable)):
        if number % FETCHED_PER_STEP == 0:
            yield None
        topic, index = found.partition
        committed = (index, found.committed or NOTHING, found.error)
        by_topic.setdefault(topic, []).append(committed)
    return list(by_topic.items())


def _of_one(topics: Topics) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.metadata,
                        error_code=error,
                    )
                    for index, committed, error in partitions
                ],
            )
            for name, partitions in topics
        ]
    )


def _check_member(context: Context, group: OffsetFetchRequestGroup) -> None:
    known = context.services.groups.shard_of(group.group_id).groups.get(group.group_id)
    if known is not None and isinstance(known.body, ConsumerGroup):
        error = check_fetch(known.body, group.member_id, group.member_epoch)
        if error:
            raise BrokerError(error)


def _of_group(
    context: Context, group: OffsetFetchRequestGroup, require_stable: bool
) -> Steps[OffsetFetchResponseGroup]:
    try:
        _check_member(context, group)
        topics = yield from _fetch(context, group.group_id, group.topics, require_stable)
    except BrokerError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.metadata,
                        error_code=error,
                    )
                    for index, committed, error in partitions
                ],
            )
            for name, partitions in topics
        ],
    )
