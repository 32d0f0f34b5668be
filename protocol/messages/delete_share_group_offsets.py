"""DeleteShareGroupOffsets (key 92): deletes what a share group knows about topics.

Introduced by KIP-932, in Kafka 4.

Source: kafka.apache.org/protocol, DeleteShareGroupOffsets.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = field("string", "0+")


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: str = field("string", "0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(
        [DeleteShareGroupOffsetsRequestTopic], "0+"
    )


@nested
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = field("string", "0+")
    topic_id: Uuid = field("uuid", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        [DeleteShareGroupOffsetsResponseTopic], "0+"
    )
