"""DescribeShareGroupOffsets (key 90): shows where share groups start in partitions.

    1   number of records not done yet (KIP-1226)

Introduced by KIP-932, in Kafka 4.

Source: kafka.apache.org/protocol, DescribeShareGroupOffsets.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@nested
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = field("string", "0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        [DescribeShareGroupOffsetsRequestTopic], "0+", nullable="0+"
    )


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(
        [DescribeShareGroupOffsetsRequestGroup], "0+"
    )


@nested
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = field("int32", "0+")
    start_offset: int = field("int64", "0+")
    leader_epoch: int = field("int32", "0+")
    lag: int = field("int64", "1+", default=-1)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


@nested
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = field("string", "0+")
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(
        [DescribeShareGroupOffsetsResponsePartition], "0+"
    )


@nested
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = field("string", "0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(
        [DescribeShareGroupOffsetsResponseTopic], "0+"
    )
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(
        [DescribeShareGroupOffsetsResponseGroup], "0+"
    )
