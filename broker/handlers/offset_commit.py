"""OffsetCommit (key 8): stores committed offsets of a group durably.

Served: 2-9.
    2   one retention time for all partitions, until version 4
    3   throttle time, which is always 0
    4   the client waits for the throttle time itself (KIP-219); it is always 0
    5   no retention time, that of the broker applies (KIP-211)
    6   leader epoch of the offset (KIP-320)
    7   static members (KIP-345)
    8   flexible encoding (KIP-482)
    9   member epochs of consumer groups, STALE_MEMBER_EPOCH (KIP-848)
Not served: 0 and 1, which only old clients use; 10, topic ids in place of names (KIP-516).
Partition errors: those of the coordinator for all (COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (v7),
    ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, INVALID_COMMIT_OFFSET_SIZE, REQUEST_TIMED_OUT; in
    consumer groups STALE_MEMBER_EPOCH, and UNSUPPORTED_VERSION before v9);
    UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE.
Source: Kafka's KafkaApis.handleOffsetCommitRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.handlers.shared.offsets_to_commit import OffsetErrors, check_offsets, error_of
from odradek.broker.security.acl.permission import READ_GROUP
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.runtime.work import pause

EXPIRE_MAX_MS: Final = 2**63 - 1
"""The latest time that a record can have."""


async def run(context: Context, request: OffsetCommitRequest) -> Reply:
    """The response waits until the commit is replicated.

    A partition with an error does not prevent the commit of the others.
    """
    require(context, READ_GROUP, request.group_id)
    groups = context.services.groups
    commits, errors, has_known = await check_offsets(
        context, request.topics, expire_ms=_expire_ms(context, request)
    )
    if not has_known:
        return Reply(await _respond(request, errors, ErrorCode.NONE))
    error = await groups.shard_of(request.group_id).commit_offsets(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        commits=commits,
        version=context.version,
    )
    return Reply(await _respond(request, errors, error))


def _expire_ms(context: Context, request: OffsetCommitRequest) -> int:
    if request.retention_time_ms == -1:
        return -1
    return min(max(0, context.now_ms + request.retention_time_ms), EXPIRE_MAX_MS)


async def _respond(
    request: OffsetCommitRequest, errors: OffsetErrors, coordinator_error: ErrorCode
) -> OffsetCommitResponse:
    response = OffsetCommitResponse(topics=[])
    for topic in request.topics:
        results: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            code = error_of(errors, (topic.name, index), coordinator_error)
            results.append(OffsetCommitResponsePartition(partition_index=index, error_code=code))
            await pause()
        if results:
            response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
    return response


def failed(
    request: OffsetCommitRequest, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    """One error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    )
