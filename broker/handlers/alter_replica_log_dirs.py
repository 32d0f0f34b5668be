"""AlterReplicaLogDirs (key 34): moves replicas of this broker to other log directories.

Served: 1-2.
    1   introduced (KIP-113)
    2   flexible encoding (KIP-482)
A replica that is not here yet is created in the directory later; its error is
REPLICA_NOT_AVAILABLE all the same, as in Kafka, or UNKNOWN_TOPIC_OR_PARTITION when the cluster does
not have the partition.
Errors of a partition: INVALID_TOPIC_EXCEPTION (its name is too long for the copy's folder),
    LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION.
Source: Kafka's ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply
from odradek.broker.replication.follower.log_directory_moves import LogDirectoryMoves
from odradek.broker.security.acl.permission import ALTER_CLUSTER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from odradek.runtime.work import pause


async def run(
    context: Context, request: AlterReplicaLogDirsRequest, *, log_directory_moves: LogDirectoryMoves
) -> Reply:
    """Begin each move; a step may create a folder: 1 ms of disk."""
    require(context, ALTER_CLUSTER)
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = log_directory_moves.move(topic.name, index, directory.path)
                absence = context.services.topics.absence(topic.name, index)
                if (error, absence) == (
                    ErrorCode.REPLICA_NOT_AVAILABLE,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ):
                    error = absence
                _add(topics, topic.name, index, error)
                await pause()
    return Reply(AlterReplicaLogDirsResponse(results=list(topics.values())))


def failed(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str | None
) -> AlterReplicaLogDirsResponse:
    """One error for every partition."""
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                _add(topics, topic.name, index, code)
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _add(
    topics: dict[str, AlterReplicaLogDirTopicResult], topic: str, index: int, error: ErrorCode
) -> None:
    result = topics.get(topic)
    if result is None:
        result = topics[topic] = AlterReplicaLogDirTopicResult(topic_name=topic, partitions=[])
    result.partitions.append(
        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
    )
