"""DeleteShareGroupState (key 86): deletes the state of a share group for partitions.

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, DeleteShareGroupState.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class PartitionData:
    partition: int = field("int32", "0+")


@nested
class DeleteStateData:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionData] = field([PartitionData], "0+")


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: str = field("string", "0+")
    topics: list[DeleteStateData] = field([DeleteStateData], "0+")


@nested
class PartitionResult:
    partition: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


@nested
class DeleteStateResult:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[PartitionResult] = field([PartitionResult], "0+")


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field([DeleteStateResult], "0+")
