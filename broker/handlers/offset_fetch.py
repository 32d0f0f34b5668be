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

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from odradek.broker.group.consumer.offsets import check_fetch
from odradek.broker.group.consumer.state import ConsumerGroup
from odradek.broker.group.offsets import GroupOffsets, OffsetAndMetadata
from odradek.broker.handlers.shared.authorization import refused_names, require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import DESCRIBE_GROUP, DESCRIBE_TOPIC
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.work import pause

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8
NOTHING: Final = OffsetAndMetadata(-1, -1, "", -1)

FETCHED_PER_STEP: Final = 16

Row = tuple[int, OffsetAndMetadata, ErrorCode]
"""(partition, its committed offset, its error)"""
TopicRows = Iterable[tuple[str, Iterable[Row]]]


async def run(context: Context, request: OffsetFetchRequest) -> Reply:
    if context.version < GROUPS_FROM:
        try:
            require(context, DESCRIBE_GROUP, request.group_id)
            topics = await _fetch(context, request.group_id, request.topics, request.require_stable)
        except BrokerError as error:
            if context.version >= TOP_LEVEL_ERROR_FROM:
                return Reply(OffsetFetchResponse(error_code=error.code))
            topics = _refused(request.topics or [], error.code)
        return Reply(OffsetFetchResponse(topics=await _rows(topics)))
    groups: list[OffsetFetchResponseGroup] = []
    whole: dict[str, None] = {}
    for group in request.groups:
        if group.topics is None:
            if group.group_id in whole:
                continue
            whole[group.group_id] = None
        groups.append(await _of_group(context, group, request.require_stable))
        await pause()
    return Reply(OffsetFetchResponse(groups=groups))


def failed(
    request: OffsetFetchRequest, code: ErrorCode, message: str | None
) -> OffsetFetchResponse:
    """The error for each group, in the fields of all versions."""
    return OffsetFetchResponse(
        error_code=code,
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
            for group in request.groups
        ],
    )


def _refused(requested: Sequence[OffsetFetchRequestTopic], code: ErrorCode) -> TopicRows:
    return (
        (topic.name, ((index, NOTHING, code) for index in topic.partition_indexes))
        for topic in requested
    )


async def _fetch(
    context: Context,
    group_id: str,
    requested: Sequence[OffsetFetchRequestTopic] | None,
    require_stable: bool,
) -> TopicRows:
    shard = context.services.groups.shard_of(group_id)
    partitions: Iterator[TopicPartition] | None = None
    refused: set[str] = set()
    if requested is not None:
        refused = refused_names(context, DESCRIBE_TOPIC, [topic.name for topic in requested])
        partitions = (
            TopicPartition(topic.name, index)
            for topic in requested
            if topic.name not in refused
            for index in topic.partition_indexes
        )
    by_topic: dict[str, list[Row]] = {}
    group = shard.groups.get(group_id)
    offsets = GroupOffsets() if group is None else group.offsets
    for number, fetched_offset in enumerate(
        offsets.fetch(partitions, require_stable=require_stable)
    ):
        if number % FETCHED_PER_STEP == 0:
            await pause()
        topic, index = fetched_offset.partition
        committed = (index, fetched_offset.committed or NOTHING, fetched_offset.error)
        by_topic.setdefault(topic, []).append(committed)
    if requested is None:
        for name in refused_names(context, DESCRIBE_TOPIC, by_topic):
            del by_topic[name]
        return by_topic.items()
    hidden = [topic for topic in requested if topic.name in refused]
    return [*by_topic.items(), *_refused(hidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]


async def _rows(topics: TopicRows) -> list[OffsetFetchResponseTopic]:
    rows = []
    for name, partitions in topics:
        row = OffsetFetchResponseTopic(name=name, partitions=[])
        for number, (index, committed, error) in enumerate(partitions):
            if number % FETCHED_PER_STEP == 0:
                await pause()
            row.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                    error_code=error,
                )
            )
        rows.append(row)
    return rows


def _check_member(context: Context, group: OffsetFetchRequestGroup) -> None:
    existing_group = context.services.groups.shard_of(group.group_id).groups.get(group.group_id)
    if existing_group is not None and isinstance(existing_group.body, ConsumerGroup):
        error = check_fetch(existing_group.body, group.member_id, group.member_epoch)
        if error:
            raise BrokerError(error)


async def _of_group(
    context: Context, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    try:
        require(context, DESCRIBE_GROUP, group.group_id)
        _check_member(context, group)
        topics = await _fetch(context, group.group_id, group.topics, require_stable)
    except BrokerError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=await _rows(topics))
