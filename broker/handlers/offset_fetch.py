"""OffsetFetch (key 9): tells how far groups have consumed.

Served: 1-9.
Errors, for a group (before v2 for each partition): COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR; from v9 on, in groups of the new protocol,
    UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION (classic members).
Partition errors: UNSTABLE_OFFSET_COMMIT (v7).
Nothing is committed: offset -1, no error.
Differs from Kafka: all offsets of a group are answered once, however often they are asked for: they
    may be a thousand times as large as a name.
Source: KIP-320, KIP-447, KIP-709, KIP-848; Kafka's KafkaApis.handleOffsetFetchRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.state import CommittedOffset, TopicPartition
from odradek.broker.group.consumer.offsets import check_fetch
from odradek.broker.group.offsets import fetch
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

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8
NOTHING: Final = CommittedOffset(-1, -1, "", -1)

Topics = list[tuple[str, list[tuple[int, CommittedOffset, ErrorCode]]]]
FETCHED_PER_STEP: Final = 16
Asked = list[OffsetFetchRequestTopics] | list[OffsetFetchRequestTopic] | None


def run(context: Context, request: OffsetFetchRequest) -> Steps[Reply]:
    """One group, or several since version 8."""
    if context.version < GROUPS_FROM:
        try:
            topics = yield from _fetch(
                context, request.group_id, request.topics, request.require_stable
            )
        except BrokerError as error:
            return Reply(_refused(request, error.code, context.version))
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
    """The error for each group, in the places of all versions."""
    response = _refused(request, code, TOP_LEVEL_ERROR_FROM)
    response.groups = [
        OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
        for group in request.groups
    ]
    return response


def _refused(request: OffsetFetchRequest, code: ErrorCode, version: int) -> OffsetFetchResponse:
    if version >= TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(error_code=code)
    asked = request.topics or []
    return _of_one(
        [
            (topic.name, [(index, NOTHING, code) for index in topic.partition_indexes])
            for topic in asked
        ]
    )


def _fetch(context: Context, group_id: str, asked: Asked, require_stable: bool) -> Steps[Topics]:
    shard = context.services.groups.shard_of(group_id)
    wanted: list[TopicPartition] | None = None
    if asked is not None:
        wanted = [(topic.name, index) for topic in asked for index in topic.partition_indexes]
    by_topic: dict[str, list[tuple[int, CommittedOffset, ErrorCode]]] = {}
    group = shard.groups.get(group_id)
    for number, found in enumerate(fetch(group, wanted, require_stable=require_stable)):
        if number % FETCHED_PER_STEP == 0:
            yield None
        topic, index = found.place
        told = (index, found.committed or NOTHING, found.error)
        by_topic.setdefault(topic, []).append(told)
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
    holder = context.services.groups.shard_of(group.group_id).groups.get(group.group_id)
    if holder is not None and holder.consumer is not None:
        error = check_fetch(holder.consumer, group.member_id, group.member_epoch)
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
