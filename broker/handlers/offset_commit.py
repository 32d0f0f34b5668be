"""OffsetCommit (key 8): stores committed offsets of a group durably.

Served: 2-9.
    2   one retention time for all partitions, until version 4
    3   throttle time, which is always 0
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

from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.handlers.handler import Context, Reply, Steps, WhenDone
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.topic_partition import TopicPartition

EXPIRE_MAX_MS: Final = 2**63 - 1
"""The latest time that a record can have."""

Errors = dict[tuple[str, int], ErrorCode]
"""By topic and partition; plain tuples, since a request may name a million partitions."""


def run(context: Context, request: OffsetCommitRequest) -> Steps[Reply | WhenDone[ErrorCode]]:
    """The response waits until the commit is replicated.

    A partition with an error does not prevent the commit of the others.
    """
    groups = context.services.groups
    commits, errors, has_known = yield from _check(context, request)
    if not has_known:
        return Reply(_respond(request, errors, ErrorCode.NONE))
    pending = groups.shard_of(request.group_id).commit_offsets(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        commits=commits,
        version=context.version,
    )
    return WhenDone(pending, lambda error: _respond(request, errors, error))


def _check(
    context: Context, request: OffsetCommitRequest
) -> Steps[tuple[dict[TopicPartition, OffsetAndMetadata], Errors, bool]]:
    """What may be stored, the errors of the other partitions, and whether any partition exists."""
    services = context.services
    metadata_bytes_max = services.groups.limits.metadata_bytes_max
    expire_ms = -1
    if request.retention_time_ms != -1:
        expire_ms = min(max(0, context.now_ms + request.retention_time_ms), EXPIRE_MAX_MS)
    commits: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: Errors = {}
    has_known = False
    for topic in request.topics:
        for partition in topic.partitions:
            yield None
            key = (topic.name, partition.partition_index)
            if services.topics.absence(*key) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            has_known = True
            metadata = partition.committed_metadata or ""
            if java_length(metadata) > metadata_bytes_max:
                errors[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            commits[TopicPartition(*key)] = OffsetAndMetadata(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                context.now_ms,
                expire_ms,
            )
    return commits, errors, has_known


def java_length(text: str) -> int:
    """The length as Kafka bounds it: in UTF-16 code units."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def _respond(
    request: OffsetCommitRequest, errors: Errors, coordinator_error: ErrorCode
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_error(
                            errors.get((topic.name, partition.partition_index)),
                            coordinator_error,
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    )


def _error(own: ErrorCode | None, coordinator_error: ErrorCode) -> ErrorCode:
    if own is None:
        return coordinator_error
    # An error of the whole commit replaces the check of the metadata.
    if own is ErrorCode.OFFSET_METADATA_TOO_LARGE and coordinator_error:
        return coordinator_error
    return own


def failed(
    request: OffsetCommitRequest, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    """The same error for every partition."""
    return _respond(request, {}, code)
