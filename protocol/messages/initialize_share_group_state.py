"""InitializeShareGroupState (key 83): starts the state of a share group for partitions, in their
share coordinator.

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, InitializeShareGroupState.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
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
    state_epoch: int = field(INT32, "0+")
    start_offset: int = field(INT64, "0+")


@nested
class InitializeStateData:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionData] = field(ArrayOf(PartitionData), "0+")


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: str = field(STRING, "0+")
    topics: list[InitializeStateData] = field(ArrayOf(InitializeStateData), "0+")


@nested
class PartitionResult:
    partition: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@nested
class InitializeStateResult:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionResult] = field(ArrayOf(PartitionResult), "0+")


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = field(ArrayOf(InitializeStateResult), "0+")
