"""DeleteShareGroupState (key 86): deletes the state of a share group for partitions.

Introduced by KIP-932; between brokers.

Source: kafka.apache.org/protocol, DeleteShareGroupState.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import INT16, INT32, STRING, UUID, ArrayOf, field, message, nested


@nested
class PartitionData:
    partition: int = field(INT32, "0+")


@nested
class DeleteStateData:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionData] = field(ArrayOf(PartitionData), "0+")


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: str = field(STRING, "0+")
    topics: list[DeleteStateData] = field(ArrayOf(DeleteStateData), "0+")


@nested
class PartitionResult:
    partition: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@nested
class DeleteStateResult:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[PartitionResult] = field(ArrayOf(PartitionResult), "0+")


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field(ArrayOf(DeleteStateResult), "0+")
