"""OffsetDelete (key 47): deletes committed offsets of a group for topics that it does not consume.

Introduced by KIP-496; never flexible.

Source: kafka.apache.org/protocol, OffsetDelete.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class OffsetDeleteRequestPartition:
    partition_index: int = field("int32", "0+")


@nested
class OffsetDeleteRequestTopic:
    name: str = field("string", "0+")
    partitions: list[OffsetDeleteRequestPartition] = field([OffsetDeleteRequestPartition], "0+")


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    group_id: str = field("string", "0+")
    topics: list[OffsetDeleteRequestTopic] = field([OffsetDeleteRequestTopic], "0+")


@nested
class OffsetDeleteResponsePartition:
    partition_index: int = field("int32", "0+")
    error_code: int = field("int16", "0+")


@nested
class OffsetDeleteResponseTopic:
    name: str = field("string", "0+")
    partitions: list[OffsetDeleteResponsePartition] = field([OffsetDeleteResponsePartition], "0+")


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    error_code: int = field("int16", "0+")
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[OffsetDeleteResponseTopic] = field([OffsetDeleteResponseTopic], "0+")
