"""ReadShareGroupState (key 84): reads the state of a share group for partitions.

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, ReadShareGroupState.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class PartitionData:
    partition: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")


@nested
class ReadStateData:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionData] = field(ArrayOf(PartitionData), "0+")


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    group_id: str = field(STRING, "0+")
    topics: list[ReadStateData] = field(ArrayOf(ReadStateData), "0+")


@nested
class StateBatch:
    first_offset: int = field(INT64, "0+")
    last_offset: int = field(INT64, "0+")
    delivery_state: int = field(INT8, "0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int = field(INT16, "0+")


@nested
class PartitionResult:
    partition: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    state_epoch: int = field(INT32, "0+")
    start_offset: int = field(INT64, "0+")
    state_batches: list[StateBatch] = field(ArrayOf(StateBatch), "0+")


@nested
class ReadStateResult:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionResult] = field(ArrayOf(PartitionResult), "0+")


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field(ArrayOf(ReadStateResult), "0+")
