"""AlterShareGroupOffsets (key 91): moves the start of a share group in partitions.

Introduced by KIP-932, in Kafka 4.

Source: kafka.apache.org/protocol, AlterShareGroupOffsets.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = field("int32", "0+")
    start_offset: int = field("int64", "0+")


@nested
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = field("string", "0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(
        [AlterShareGroupOffsetsRequestPartition], "0+"
    )


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: str = field("string", "0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(
        [AlterShareGroupOffsetsRequestTopic], "0+"
    )


@nested
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


@nested
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = field("string", "0+")
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(
        [AlterShareGroupOffsetsResponsePartition], "0+"
    )


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(
        [AlterShareGroupOffsetsResponseTopic], "0+"
    )
