"""DeleteShareGroupOffsets (key 92): deletes what a share group knows about topics.

Introduced by KIP-932, in Kafka 4.

Source: kafka.apache.org/protocol, DeleteShareGroupOffsets.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import INT16, INT32, STRING, UUID, ArrayOf, field, message, nested


@nested
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = field(STRING, "0+")


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: str = field(STRING, "0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(
        ArrayOf(DeleteShareGroupOffsetsRequestTopic), "0+"
    )


@nested
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = field(STRING, "0+")
    topic_id: Uuid = field(UUID, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        ArrayOf(DeleteShareGroupOffsetsResponseTopic), "0+"
    )
