"""AlterPartitionReassignments (key 45): starts, changes or cancels moving replicas between brokers.

    1   changing the number of replicas may be forbidden (KIP-860)

Introduced by KIP-455.

Source: kafka.apache.org/protocol, AlterPartitionReassignments.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class ReassignablePartition:
    partition_index: int = field("int32", "0+")
    replicas: list[int] | None = field(["int32"], "0+", nullable="0+", default=None)
    """None cancels."""


@nested
class ReassignableTopic:
    name: str = field("string", "0+")
    partitions: list[ReassignablePartition] = field([ReassignablePartition], "0+")


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = field("int32", "0+", default=60000)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    topics: list[ReassignableTopic] = field([ReassignableTopic], "0+")


@nested
class ReassignablePartitionResponse:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")


@nested
class ReassignableTopicResponse:
    name: str = field("string", "0+")
    partitions: list[ReassignablePartitionResponse] = field([ReassignablePartitionResponse], "0+")


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field([ReassignableTopicResponse], "0+")
