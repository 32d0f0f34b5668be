"""DeleteRecords (key 21): moves the log start offset of partitions forward.

Served: 0-2.
    0   introduced (KIP-107)
    1   the client waits for the throttle time itself (KIP-219); it is always 0
    2   flexible encoding (KIP-482)
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (internal topics),
    NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION (cleanup.policy lacks delete), OFFSET_OUT_OF_RANGE,
    KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT (a live replica has not deleted the records in time).
Source: Kafka's ReplicaManager.deleteRecords, DelayedDeleteRecords.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.shared.authorization import refused_names
from odradek.broker.handlers.shared.handler import Context, Delayed, Reply
from odradek.broker.replication.partition import Partition
from odradek.broker.security.acl.permission import DELETE_TOPIC
from odradek.controller.image.image import INTERNAL_TOPICS
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.runtime.work import pause

TO_HIGH_WATERMARK: Final = -1


WaitingDeletion = tuple[DeleteRecordsPartitionResult, Partition, int]
"""A partition's result, the partition, and the log start offset that its replicas must reach."""


async def run(context: Context, request: DeleteRecordsRequest) -> Reply | Delayed:
    """Every partition for itself; the response waits for the live replicas of all."""
    refused = refused_names(context, DELETE_TOPIC, [topic.name for topic in request.topics])
    topics = []
    waiting: list[WaitingDeletion] = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if topic.name in refused:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                partitions.append(_refused(partition, code))
            else:
                partitions.append(_delete(context, topic.name, partition, waiting))
            await pause()
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    response = DeleteRecordsResponse(topics=topics)
    return _when_deleted(request, response, waiting) if waiting else Reply(response)


def failed(
    request: DeleteRecordsRequest, code: ErrorCode, message: str | None
) -> DeleteRecordsResponse:
    """One error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_refused(partition, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _refused(partition: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition.partition_index, low_watermark=-1, error_code=code
    )


def _delete(
    context: Context,
    topic: str,
    requested_partition: DeleteRecordsPartition,
    waiting: list[WaitingDeletion],
) -> DeleteRecordsPartitionResult:
    """Move the log start offset; a result that must wait for replicas is added to `waiting`."""
    try:
        partition, offset = _advance(context, topic, requested_partition)
    except BrokerError as error:
        return _refused(requested_partition, error.code)
    except OSError:
        return _refused(requested_partition, ErrorCode.KAFKA_STORAGE_ERROR)
    leader = partition.leading()
    result = DeleteRecordsPartitionResult(
        partition_index=requested_partition.partition_index,
        low_watermark=leader.low_watermark(partition.log.log_start_offset),
        error_code=ErrorCode.NONE,
    )
    if result.low_watermark < offset:
        waiting.append((result, partition, offset))
    return result


def _advance(
    context: Context, topic: str, requested_partition: DeleteRecordsPartition
) -> tuple[Partition, int]:
    """Move the log start offset of this broker; the partition, and the offset that was meant."""
    if topic in INTERNAL_TOPICS:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = context.services.partitions.get(topic, requested_partition.partition_index)
    if partition is None:
        raise BrokerError(
            context.services.topics.absence(topic, requested_partition.partition_index)
        )
    partition.leading()
    log = partition.log
    if not log.config.cleanup_delete:
        raise BrokerError(ErrorCode.POLICY_VIOLATION)
    offset = (
        log.high_watermark
        if requested_partition.offset == TO_HIGH_WATERMARK
        else requested_partition.offset
    )
    if not 0 <= offset <= log.high_watermark:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > log.log_start_offset:
        log.advance_log_start(offset)
        context.services.purgatory.notify(partition)
    return partition, offset


def _when_deleted(
    request: DeleteRecordsRequest, response: DeleteRecordsResponse, waiting: list[WaitingDeletion]
) -> Delayed:
    """Wait until all live replicas have deleted the records; they learn of it when they fetch."""
    watch = tuple(partition for _, partition, _ in waiting)

    def attempt() -> DeleteRecordsResponse | None:
        waiting[:] = [deletion for deletion in waiting if not _settle(*deletion)]
        return None if waiting else response

    def expire() -> DeleteRecordsResponse:
        for result, _, _ in waiting:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    return Delayed(watch, request.timeout_ms, attempt, expire)


def _settle(result: DeleteRecordsPartitionResult, partition: Partition, offset: int) -> bool:
    """Whether it is known what became of a deletion; the result says so then."""
    try:
        leader = partition.leading()
    except BrokerError as error:
        result.error_code, result.low_watermark = error.code, -1
        return True
    low_watermark = leader.low_watermark(partition.log.log_start_offset)
    if low_watermark < offset:
        return False
    result.low_watermark = low_watermark
    return True
