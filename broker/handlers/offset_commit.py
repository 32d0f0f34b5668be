"""OffsetCommit (key 8): stores how far a group has consumed, durably.

Served: 2-9.
Partition errors: those of the coordinator for all (COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (v7),
    ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, INVALID_COMMIT_OFFSET_SIZE, REQUEST_TIMED_OUT; in
    groups of the new protocol STALE_MEMBER_EPOCH, and UNSUPPORTED_VERSION before v9);
    UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE.
Source: KIP-211, KIP-320, KIP-345, KIP-848; Kafka's KafkaApis.handleOffsetCommitRequest.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.group.classic.state import CommittedOffset, TopicPartition
from odradek.broker.handlers.handler import Context, Delayed, Reply, Steps
from odradek.broker.handlers.waiting import when_done
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

WAIT_MAX_MS: Final = 2**31 - 1
"""The coordinator's own time-out (offsets.commit.timeout.ms) comes before it."""

EXPIRE_MAX_MS: Final = 2**63 - 1
"""The latest time that can be stored."""

Errors = dict[TopicPartition, ErrorCode]


def run(context: Context, request: OffsetCommitRequest) -> Steps[Reply | Delayed]:
    """Store what can be stored; partitions that cannot do not keep the others back."""
    groups = context.services.groups
    commits, errors, has_known = yield from _sort_out(context, request)
    if not has_known:
        return Reply(_respond(request, errors, ErrorCode.NONE))
    pending = groups.shard_of(request.group_id).commit(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        commits=commits,
        version=context.version,
    )
    if pending.is_done:
        return Reply(_respond(request, errors, pending.result()))
    return when_done(
        context,
        pending,
        WAIT_MAX_MS,
        answer=lambda error: _respond(request, errors, error),
        late=lambda: failed(request, ErrorCode.REQUEST_TIMED_OUT, None),
    )


def _sort_out(
    context: Context, request: OffsetCommitRequest
) -> Steps[tuple[dict[TopicPartition, CommittedOffset], Errors, bool]]:
    """What may be stored, the errors of the rest, and whether any partition exists."""
    services = context.services
    metadata_bytes_max = services.groups.limits.metadata_bytes_max
    expire_ms = -1
    if request.retention_time_ms != -1:
        expire_ms = min(max(0, context.now_ms + request.retention_time_ms), EXPIRE_MAX_MS)
    commits: dict[TopicPartition, CommittedOffset] = {}
    errors: Errors = {}
    has_known = False
    for topic in request.topics:
        for partition in topic.partitions:
            yield None
            place = (topic.name, partition.partition_index)
            if services.topics.absence(*place) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            has_known = True
            metadata = partition.committed_metadata or ""
            if java_length(metadata) > metadata_bytes_max:
                errors[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            commits[place] = CommittedOffset(
                partition.committed_offset,
                partition.committed_leader_epoch,
                metadata,
                context.now_ms,
                expire_ms,
            )
    return commits, errors, has_known


def java_length(text: str) -> int:
    """The length that Kafka bounds: UTF-16 units."""
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
                            errors.get((topic.name, partition.partition_index)), coordinator_error
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
    # A commit that is refused as a whole does not look at the metadata of its partitions.
    if own is ErrorCode.OFFSET_METADATA_TOO_LARGE and coordinator_error:
        return coordinator_error
    return own


def failed(
    request: OffsetCommitRequest, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    """The same error for every partition."""
    return _respond(request, {}, code)
