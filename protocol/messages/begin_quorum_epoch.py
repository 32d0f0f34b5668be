"""BeginQuorumEpoch (key 53): tells the KRaft quorum who won an election.

    1   flexible encoding (KIP-482); directory id of the voter, endpoints (KIP-853)

Introduced by KIP-595; only between controllers.

Source: kafka.apache.org/protocol, BeginQuorumEpoch.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    INT16,
    INT32,
    STRING,
    UINT16,
    UUID,
    ZERO_UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class BeginQuorumEpochRequestPartitionData:
    partition_index: int = field(INT32, "0+")
    voter_directory_id: Uuid = field(UUID, "1+", default=ZERO_UUID)
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")


@nested
class BeginQuorumEpochRequestTopicData:
    topic_name: str = field(STRING, "0+")
    partitions: list[BeginQuorumEpochRequestPartitionData] = field(
        ArrayOf(BeginQuorumEpochRequestPartitionData), "0+"
    )


@nested
class LeaderEndpoint:
    name: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@message(api_key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    cluster_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    voter_id: int = field(INT32, "1+", default=-1)
    topics: list[BeginQuorumEpochRequestTopicData] = field(
        ArrayOf(BeginQuorumEpochRequestTopicData), "0+"
    )
    leader_endpoints: list[LeaderEndpoint] = field(ArrayOf(LeaderEndpoint), "1+", default=[])


@nested
class BeginQuorumEpochResponsePartitionData:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")


@nested
class BeginQuorumEpochResponseTopicData:
    topic_name: str = field(STRING, "0+")
    partitions: list[BeginQuorumEpochResponsePartitionData] = field(
        ArrayOf(BeginQuorumEpochResponsePartitionData), "0+"
    )


@nested
class NodeEndpoint:
    node_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@message(api_key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    error_code: int = field(INT16, "0+")
    topics: list[BeginQuorumEpochResponseTopicData] = field(
        ArrayOf(BeginQuorumEpochResponseTopicData), "0+"
    )
    node_endpoints: list[NodeEndpoint] = field(ArrayOf(NodeEndpoint), "1+", tag=0, default=[])
