"""AlterPartitionReassignments (key 45): starts, changes or cancels moving replicas between brokers.

    1   changing the number of replicas may be forbidden (KIP-860)

Introduced by KIP-455.

Source: kafka.apache.org/protocol, AlterPartitionReassignments.
"""

from __future__ import annotations

from odradek.protocol.schema import BOOL, INT16, INT32, STRING, ArrayOf, field, message, nested


@nested
class ReassignablePartition:
    partition_index: int = field(INT32, "0+")
    replicas: list[int] | None = field(ArrayOf(INT32), "0+", nullable="0+", default=None)
    """None cancels."""


@nested
class ReassignableTopic:
    name: str = field(STRING, "0+")
    partitions: list[ReassignablePartition] = field(ArrayOf(ReassignablePartition), "0+")


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = field(INT32, "0+", default=60000)
    allow_replication_factor_change: bool = field(BOOL, "1+", default=True)
    topics: list[ReassignableTopic] = field(ArrayOf(ReassignableTopic), "0+")


@nested
class ReassignablePartitionResponse:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


@nested
class ReassignableTopicResponse:
    name: str = field(STRING, "0+")
    partitions: list[ReassignablePartitionResponse] = field(
        ArrayOf(ReassignablePartitionResponse), "0+"
    )


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    allow_replication_factor_change: bool = field(BOOL, "1+", default=True)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field(ArrayOf(ReassignableTopicResponse), "0+")
