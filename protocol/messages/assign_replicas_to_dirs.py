"""AssignReplicasToDirs (key 73): tells the KRaft controller in which directory a broker put its
replicas.

Introduced by KIP-858.

Source: kafka.apache.org/protocol, AssignReplicasToDirs.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import INT16, INT32, INT64, UUID, ArrayOf, field, message, nested


@nested
class AssignReplicasToDirsRequestPartitionData:
    partition_index: int = field(INT32, "0+")


@nested
class AssignReplicasToDirsRequestTopicData:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[AssignReplicasToDirsRequestPartitionData] = field(
        ArrayOf(AssignReplicasToDirsRequestPartitionData), "0+"
    )


@nested
class AssignReplicasToDirsRequestDirectoryData:
    id: Uuid = field(UUID, "0+")
    topics: list[AssignReplicasToDirsRequestTopicData] = field(
        ArrayOf(AssignReplicasToDirsRequestTopicData), "0+"
    )


@message(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    broker_id: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "0+", default=-1)
    """Rises with each registration of the broker; -1 if unknown (KIP-380)."""
    directories: list[AssignReplicasToDirsRequestDirectoryData] = field(
        ArrayOf(AssignReplicasToDirsRequestDirectoryData), "0+"
    )


@nested
class AssignReplicasToDirsResponsePartitionData:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


@nested
class AssignReplicasToDirsResponseTopicData:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[AssignReplicasToDirsResponsePartitionData] = field(
        ArrayOf(AssignReplicasToDirsResponsePartitionData), "0+"
    )


@nested
class AssignReplicasToDirsResponseDirectoryData:
    id: Uuid = field(UUID, "0+")
    topics: list[AssignReplicasToDirsResponseTopicData] = field(
        ArrayOf(AssignReplicasToDirsResponseTopicData), "0+"
    )


@message(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    directories: list[AssignReplicasToDirsResponseDirectoryData] = field(
        ArrayOf(AssignReplicasToDirsResponseDirectoryData), "0+"
    )
