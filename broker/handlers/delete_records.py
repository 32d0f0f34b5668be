"""DeleteRecords (key 21): moves the log start offset of partitions forward.

Served: 0-2.
    0   introduced (KIP-107)
    2   flexible encoding (KIP-482)
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (internal topics),
    NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION (cleanup.policy lacks delete), OFFSET_OUT_OF_RANGE.
Source: Kafka's ReplicaManager.deleteRecords.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.handler import Context, Reply, Steps
from odradek.broker.topics import INTERNAL_TOPICS
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_HIGH_WATERMARK: Final = -1


def run(context: Context, request: DeleteRecordsRequest) -> Steps[Reply]:
    """Every partition for itself; no other replica has to follow yet."""
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            partitions.append(_delete(context, topic.name, wanted))
            yield None
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return Reply(DeleteRecordsResponse(topics=topics))


def failed(
    request: DeleteRecordsRequest, code: ErrorCode, message: str | None
) -> DeleteRecordsResponse:
    """The same error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_refused(wanted, code) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _refused(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=-1, error_code=code
    )


def _delete(
    context: Context, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _advance(context, topic, wanted)
    except BrokerError as error:
        return _refused(wanted, error.code)
    except OSError:
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index,
        low_watermark=low_watermark,
        error_code=ErrorCode.NONE,
    )


def _advance(context: Context, topic: str, wanted: DeleteRecordsPartition) -> int:
    if topic in INTERNAL_TOPICS:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = context.services.partitions.get(topic, wanted.partition_index)
    if partition is None:
        raise BrokerError(context.services.topics.absence(topic, wanted.partition_index))
    partition.leading()
    log = partition.log
    if not log.config.cleanup_delete:
        raise BrokerError(ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if wanted.offset == TO_HIGH_WATERMARK else wanted.offset
    if not 0 <= offset <= log.high_watermark:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > log.log_start_offset:
        log.advance_log_start(offset)
        context.services.purgatory.notify(partition)
    return log.log_start_offset
