"""InitializeShareGroupState (key 83): starts the state of a share group for partitions, in their
share coordinator.

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, InitializeShareGroupState.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class PartitionData:
    partition: int = field("int32", "0+")
    state_epoch: int = field("int32", "0+")
    start_offset: int = field("int64", "0+")


@nested
class InitializeStateData:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionData] = field([PartitionData], "0+")


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: str = field("string", "0+")
    topics: list[InitializeStateData] = field([InitializeStateData], "0+")


@nested
class PartitionResult:
    partition: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


@nested
class InitializeStateResult:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionResult] = field([PartitionResult], "0+")


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = field([InitializeStateResult], "0+")
