"""ElectLeaders (key 43): makes the controller elect leaders of partitions.

    0   preferred leaders only (KIP-183)
    1   unclean election too (KIP-460)
    2   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, ElectLeaders.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class TopicPartitions:
    topic: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: int = field("int8", "1+", default=0)
    """0 preferred, 1 unclean."""
    topic_partitions: list[TopicPartitions] | None = field([TopicPartitions], "0+", nullable="0+")
    """None asks for all."""
    timeout_ms: int = field("int32", "0+", default=60000)


@nested
class PartitionResult:
    partition_id: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")


@nested
class ReplicaElectionResult:
    topic: str = field("string", "0+")
    partition_result: list[PartitionResult] = field([PartitionResult], "0+")


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field([ReplicaElectionResult], "0+")
