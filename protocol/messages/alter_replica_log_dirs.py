"""AlterReplicaLogDirs (key 34): moves replicas between the directories of a broker.

    2   flexible encoding (KIP-482)

Introduced by KIP-113.

Source: kafka.apache.org/protocol, AlterReplicaLogDirs.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class AlterReplicaLogDirTopic:
    name: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@nested
class AlterReplicaLogDir:
    path: str = field("string", "0+")
    topics: list[AlterReplicaLogDirTopic] = field([AlterReplicaLogDirTopic], "0+")


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field([AlterReplicaLogDir], "0+")


@nested
class AlterReplicaLogDirPartitionResult:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")


@nested
class AlterReplicaLogDirTopicResult:
    topic_name: str = field("string", "0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = field(
        [AlterReplicaLogDirPartitionResult], "0+"
    )


@message(api_key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AlterReplicaLogDirTopicResult] = field([AlterReplicaLogDirTopicResult], "0+")
