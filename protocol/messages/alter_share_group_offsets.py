"""AlterShareGroupOffsets (key 91): moves the start of a share group in partitions.

Introduced by KIP-932, in Kafka 4.

Source: kafka.apache.org/protocol, AlterShareGroupOffsets.
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
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = field(INT32, "0+")
    start_offset: int = field(INT64, "0+")


@nested
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = field(STRING, "0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        ArrayOf(AlterShareGroupOffsetsRequestPartition), "0+"
    )


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: str = field(STRING, "0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(
        ArrayOf(AlterShareGroupOffsetsRequestTopic), "0+"
    )


@nested
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@nested
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = field(STRING, "0+")
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        ArrayOf(AlterShareGroupOffsetsResponsePartition), "0+"
    )


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        ArrayOf(AlterShareGroupOffsetsResponseTopic), "0+"
    )
