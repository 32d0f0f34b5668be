"""EndQuorumEpoch (key 54): tells the KRaft quorum that its leader resigns.

    1   flexible encoding (KIP-482); candidates with directory ids, endpoints (KIP-853)

Introduced by KIP-595; only between controllers.

Source: kafka.apache.org/protocol, EndQuorumEpoch.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    INT16,
    INT32,
    STRING,
    UINT16,
    UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class ReplicaInfo:
    candidate_id: int = field(INT32, "0+")
    candidate_directory_id: Uuid = field(UUID, "0+")


@nested
class EndQuorumEpochRequestPartitionData:
    partition_index: int = field(INT32, "0+")
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")
    preferred_successors: list[int] = field(ArrayOf(INT32), "0", default=[])
    preferred_candidates: list[ReplicaInfo] = field(ArrayOf(ReplicaInfo), "1+", default=[])


@nested
class EndQuorumEpochRequestTopicData:
    topic_name: str = field(STRING, "0+")
    partitions: list[EndQuorumEpochRequestPartitionData] = field(
        ArrayOf(EndQuorumEpochRequestPartitionData), "0+"
    )


@nested
class LeaderEndpoint:
    name: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@message(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    cluster_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    topics: list[EndQuorumEpochRequestTopicData] = field(
        ArrayOf(EndQuorumEpochRequestTopicData), "0+"
    )
    leader_endpoints: list[LeaderEndpoint] = field(ArrayOf(LeaderEndpoint), "1+", default=[])


@nested
class EndQuorumEpochResponsePartitionData:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")


@nested
class EndQuorumEpochResponseTopicData:
    topic_name: str = field(STRING, "0+")
    partitions: list[EndQuorumEpochResponsePartitionData] = field(
        ArrayOf(EndQuorumEpochResponsePartitionData), "0+"
    )


@nested
class NodeEndpoint:
    node_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@message(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
    error_code: int = field(INT16, "0+")
    topics: list[EndQuorumEpochResponseTopicData] = field(
        ArrayOf(EndQuorumEpochResponseTopicData), "0+"
    )
    node_endpoints: list[NodeEndpoint] = field(ArrayOf(NodeEndpoint), "1+", tag=0, default=[])
