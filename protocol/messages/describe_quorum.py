"""DescribeQuorum (key 55): shows the voters and observers of the quorum that keeps the metadata.

    1   when replicas fetched and were caught up (KIP-836)
    2   error messages, directories of replicas, listeners of the controllers (KIP-853)

Introduced by KIP-595.

Source: kafka.apache.org/protocol, DescribeQuorum.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class DescribeQuorumRequestPartitionData:
    partition_index: int = field("int32", "0+")


@nested
class DescribeQuorumRequestTopicData:
    topic_name: str = field("string", "0+")
    partitions: list[DescribeQuorumRequestPartitionData] = field(
        [DescribeQuorumRequestPartitionData], "0+"
    )


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[DescribeQuorumRequestTopicData] = field([DescribeQuorumRequestTopicData], "0+")


@nested
class ReplicaState:
    replica_id: int = field("int32", "0+")
    replica_directory_id: Uuid = field("uuid", "2+", default=ZERO_UUID)
    log_end_offset: int = field("int64", "0+")
    """-1 if it is unknown."""
    last_fetch_timestamp_ms: int = field("int64", "1+", default=-1)
    """-1 if it is unknown, and for the leader."""
    last_caught_up_timestamp_ms: int = field("int64", "1+", default=-1)
    """-1 if it is unknown."""


@nested
class DescribeQuorumResponsePartitionData:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "2+", nullable="2+", default=None)
    leader_id: int = field("int32", "0+")
    """-1 if it is unknown."""
    leader_epoch: int = field("int32", "0+")
    high_watermark: int = field("int64", "0+")
    current_voters: list[ReplicaState] = field([ReplicaState], "0+")
    observers: list[ReplicaState] = field([ReplicaState], "0+")


@nested
class DescribeQuorumResponseTopicData:
    topic_name: str = field("string", "0+")
    partitions: list[DescribeQuorumResponsePartitionData] = field(
        [DescribeQuorumResponsePartitionData], "0+"
    )


@nested
class DescribeQuorumListener:
    name: str = field("string", "2+")
    host: str = field("string", "2+")
    port: int = field("uint16", "2+")


@nested
class DescribeQuorumNode:
    node_id: int = field("int32", "2+")
    listeners: list[DescribeQuorumListener] = field([DescribeQuorumListener], "2+")


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "2+", nullable="2+", default=None)
    topics: list[DescribeQuorumResponseTopicData] = field([DescribeQuorumResponseTopicData], "0+")
    nodes: list[DescribeQuorumNode] = field([DescribeQuorumNode], "2+", default=[])
