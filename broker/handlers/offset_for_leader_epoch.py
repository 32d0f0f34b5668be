"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch.

Served: 2-4.
    0   introduced (KIP-101)
    1   the epoch that was found (KIP-279)
    2   current leader epoch (KIP-320)
    3   replica id (KIP-392), ignored
    4   flexible encoding (KIP-482)
Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH.
Source: Kafka's ReplicaManager.lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import is_authorized, refused_names
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.security.acl.permission import CLUSTER_ACTION, DESCRIBE_TOPIC
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from odradek.runtime.work import pause


async def run(context: Context, request: OffsetForLeaderEpochRequest) -> Reply:
    """Every partition for itself."""
    refused: set[str] = set()
    if not is_authorized(context, CLUSTER_ACTION, log_if_denied=False):
        names = [topic.topic for topic in request.topics]
        refused = refused_names(context, DESCRIBE_TOPIC, names)
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if topic.topic in refused:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                partitions.append(EpochEndOffset(error_code=code, partition=partition.partition))
            else:
                partitions.append(_end(context, topic.topic, partition))
            await pause()
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return Reply(OffsetForLeaderEpochResponse(topics=topics))


def failed(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, message: str | None
) -> OffsetForLeaderEpochResponse:
    """One error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(error_code=code, partition=partition.partition)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end(
    context: Context, topic: str, requested_partition: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        partition = context.services.partitions.get(topic, requested_partition.partition)
        if partition is None:
            raise BrokerError(context.services.topics.absence(topic, requested_partition.partition))
        partition.check_leader_epoch(requested_partition.current_leader_epoch)
        partition.leading()
    except BrokerError as error:
        return EpochEndOffset(error_code=error.code, partition=requested_partition.partition)
    log = partition.log
    epoch, end_offset = log.leader_epochs.end_offset_for(
        requested_partition.leader_epoch, log.end_offset
    )
    return EpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=requested_partition.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
