"""WriteShareGroupState (key 85): stores the state of a share group for partitions.

    1   number of records done (KIP-1226)

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, WriteShareGroupState.
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
class StateBatch:
    first_offset: int = field(INT64, "0+")
    last_offset: int = field(INT64, "0+")
    delivery_state: int = field(INT8, "0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int = field(INT16, "0+")


@nested
class PartitionData:
    partition: int = field(INT32, "0+")
    state_epoch: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")
    start_offset: int = field(INT64, "0+")
    """-1 if unchanged."""
    delivery_complete_count: int = field(INT32, "1+", default=-1)
    state_batches: list[StateBatch] = field(ArrayOf(StateBatch), "0+")


@nested
class WriteStateData:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionData] = field(ArrayOf(PartitionData), "0+")


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    group_id: str = field(STRING, "0+")
    topics: list[WriteStateData] = field(ArrayOf(WriteStateData), "0+")


@nested
class PartitionResult:
    partition: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@nested
class WriteStateResult:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionResult] = field(ArrayOf(PartitionResult), "0+")


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = field(ArrayOf(WriteStateResult), "0+")
