"""OffsetDelete (key 47): deletes committed offsets of a group for topics that it does not consume.

Introduced by KIP-496; never flexible.

Source: kafka.apache.org/protocol, OffsetDelete.
"""

from __future__ import annotations

from odradek.protocol.schema import INT16, INT32, STRING, ArrayOf, field, message, nested


@nested
class OffsetDeleteRequestPartition:
    partition_index: int = field(INT32, "0+")


@nested
class OffsetDeleteRequestTopic:
    name: str = field(STRING, "0+")
    partitions: list[OffsetDeleteRequestPartition] = field(
        ArrayOf(OffsetDeleteRequestPartition), "0+"
    )


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    group_id: str = field(STRING, "0+")
    topics: list[OffsetDeleteRequestTopic] = field(ArrayOf(OffsetDeleteRequestTopic), "0+")


@nested
class OffsetDeleteResponsePartition:
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


@nested
class OffsetDeleteResponseTopic:
    name: str = field(STRING, "0+")
    partitions: list[OffsetDeleteResponsePartition] = field(
        ArrayOf(OffsetDeleteResponsePartition), "0+"
    )


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    error_code: int = field(INT16, "0+")
    throttle_time_ms: int = field(INT32, "0+", default=0)
    topics: list[OffsetDeleteResponseTopic] = field(ArrayOf(OffsetDeleteResponseTopic), "0+")
