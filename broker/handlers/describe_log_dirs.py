"""DescribeLogDirs (key 35): the log directories and the sizes of the logs in them.

Served: 1-4.
    0   introduced (KIP-113)
    2   flexible encoding (KIP-482)
    3   a top-level error code
    4   size and free space of the volume (KIP-827)
Not done: 5, cordoned directories (KIP-1066).
Errors of a directory: KAFKA_STORAGE_ERROR (offline).
Source: Kafka's ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

from odradek.broker.handlers.shared.authorization import require
from odradek.broker.handlers.shared.handler import Context, Reply, top_level
from odradek.broker.security.acl.permission import DESCRIBE_CLUSTER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.runtime.files import FileSystem
from odradek.runtime.work import pause, value_of
from odradek.storage.directories.directory_usage import DirectoryUsage, usage_of
from odradek.storage.log.log import Log

failed = top_level(DescribeLogDirsResponse)


async def run(context: Context, request: DescribeLogDirsRequest, *, files: FileSystem) -> Reply:
    """All partitions when none are named; a directory without any of those asked for is listed."""
    require(context, DESCRIBE_CLUSTER)
    partitions: dict[tuple[str, int], None] | None = None
    if request.topics is not None:
        partitions = {}
        for topic in request.topics:
            partitions |= dict.fromkeys((topic.topic, index) for index in topic.partitions)
            await pause()

    def is_wanted(log: Log) -> bool:
        return partitions is None or (log.topic, log.partition) in partitions

    usages = await value_of(usage_of(context.services.logs, files, is_wanted=is_wanted))
    results: list[DescribeLogDirsResult] = []
    for usage in usages:
        described = await _describe(usage)
        results.append(described)
    return Reply(DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=results))


async def _describe(usage: DirectoryUsage) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in usage.logs:
        await pause()
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic, partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=log.partition,
                partition_size_bytes=log.size_bytes,
                offset_lag=log.offset_lag,
                is_future_key=log.is_future,
            )
        )
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE if usage.is_online else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=usage.path,
        topics=list(topics.values()),
        total_bytes=usage.total_bytes,
        usable_bytes=usage.usable_bytes,
    )
