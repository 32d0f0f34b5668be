"""ElectLeaders (key 43): makes the controller elect leaders of partitions.

    0   preferred leaders only (KIP-183)
    1   unclean election too (KIP-460)
    2   flexible encoding (KIP-482)

Source: kafka.apache.org/protocol, ElectLeaders.
"""

from __future__ import annotations

from odradek.protocol.schema import INT8, INT16, INT32, STRING, ArrayOf, field, message, nested


@nested
class TopicPartitions:
    topic: str = field(STRING, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: int = field(INT8, "1+", default=0)
    """0 preferred, 1 unclean."""
    topic_partitions: list[TopicPartitions] | None = field(
        ArrayOf(TopicPartitions), "0+", nullable="0+"
    )
    """None asks for all."""
    timeout_ms: int = field(INT32, "0+", default=60000)


@nested
class PartitionResult:
    partition_id: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


@nested
class ReplicaElectionResult:
    topic: str = field(STRING, "0+")
    partition_result: list[PartitionResult] = field(ArrayOf(PartitionResult), "0+")


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(
        ArrayOf(ReplicaElectionResult), "0+"
    )
