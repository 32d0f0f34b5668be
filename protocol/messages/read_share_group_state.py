"""ReadShareGroupState (key 84): reads the state of a share group for partitions.

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, ReadShareGroupState.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class PartitionData:
    partition: int = field("int32", "0+")
    leader_epoch: int = field("int32", "0+")


@nested
class ReadStateData:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionData] = field([PartitionData], "0+")


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    group_id: str = field("string", "0+")
    topics: list[ReadStateData] = field([ReadStateData], "0+")


@nested
class StateBatch:
    first_offset: int = field("int64", "0+")
    last_offset: int = field("int64", "0+")
    delivery_state: int = field("int8", "0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int = field("int16", "0+")


@nested
class PartitionResult:
    partition: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    state_epoch: int = field("int32", "0+")
    start_offset: int = field("int64", "0+")
    state_batches: list[StateBatch] = field([StateBatch], "0+")


@nested
class ReadStateResult:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionResult] = field([PartitionResult], "0+")


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field([ReadStateResult], "0+")
