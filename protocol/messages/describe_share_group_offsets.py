"""DescribeShareGroupOffsets (key 90): shows where share groups start in partitions.

    1   number of records not done yet (KIP-1226)

Introduced by KIP-932, in Kafka 4.

Source: kafka.apache.org/protocol, DescribeShareGroupOffsets.
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
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = field(STRING, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@nested
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = field(STRING, "0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        ArrayOf(DescribeShareGroupOffsetsRequestTopic), "0+", nullable="0+"
    )


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(
        ArrayOf(DescribeShareGroupOffsetsRequestGroup), "0+"
    )


@nested
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = field(INT32, "0+")
    start_offset: int = field(INT64, "0+")
    leader_epoch: int = field(INT32, "0+")
    lag: int = field(INT64, "1+", default=-1)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@nested
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = field(STRING, "0+")
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        ArrayOf(DescribeShareGroupOffsetsResponsePartition), "0+"
    )


@nested
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = field(STRING, "0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(
        ArrayOf(DescribeShareGroupOffsetsResponseTopic), "0+"
    )
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        ArrayOf(DescribeShareGroupOffsetsResponseGroup), "0+"
    )
