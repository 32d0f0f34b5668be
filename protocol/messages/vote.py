"""Vote (key 52): asks for a vote in an election of the KRaft quorum.

    1   directory ids of voter and candidate, endpoints (KIP-853)
    2   pre-vote (KIP-996)

Introduced by KIP-595; only between controllers.

Source: kafka.apache.org/protocol, Vote.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
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
class VoteRequestPartitionData:
    partition_index: int = field(INT32, "0+")
    replica_epoch: int = field(INT32, "0+")
    replica_id: int = field(INT32, "0+")
    replica_directory_id: Uuid = field(UUID, "1+", default=ZERO_UUID)
    voter_directory_id: Uuid = field(UUID, "1+", default=ZERO_UUID)
    last_offset_epoch: int = field(INT32, "0+")
    last_offset: int = field(INT64, "0+")
    pre_vote: bool = field(BOOL, "2+", default=False)


@nested
class VoteRequestTopicData:
    topic_name: str = field(STRING, "0+")
    partitions: list[VoteRequestPartitionData] = field(ArrayOf(VoteRequestPartitionData), "0+")


@message(api_key=52, versions="0-2", flexible="0+")
class VoteRequest:
    cluster_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    voter_id: int = field(INT32, "1+", default=-1)
    topics: list[VoteRequestTopicData] = field(ArrayOf(VoteRequestTopicData), "0+")


@nested
class VoteResponsePartitionData:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")
    vote_granted: bool = field(BOOL, "0+")


@nested
class VoteResponseTopicData:
    topic_name: str = field(STRING, "0+")
    partitions: list[VoteResponsePartitionData] = field(ArrayOf(VoteResponsePartitionData), "0+")


@nested
class NodeEndpoint:
    node_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@message(api_key=52, versions="0-2", flexible="0+")
class VoteResponse:
    error_code: int = field(INT16, "0+")
    topics: list[VoteResponseTopicData] = field(ArrayOf(VoteResponseTopicData), "0+")
    node_endpoints: list[NodeEndpoint] = field(ArrayOf(NodeEndpoint), "1+", tag=0, default=[])
