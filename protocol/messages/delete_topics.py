"""DeleteTopics (key 20): deletes topics.

    1   throttle time
    3   the client understands TOPIC_DELETION_DISABLED (KIP-322)
    4   flexible encoding (KIP-482)
    5   error message, THROTTLING_QUOTA_EXCEEDED (KIP-599)
    6   by topic id (KIP-516)

Source: kafka.apache.org/protocol, DeleteTopics.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import ZERO_UUID, field, message, nested


@nested
class DeleteTopicState:
    name: str | None = field("string", "0+", nullable="0+", default=None)
    """None when the id is given."""
    topic_id: Uuid = field("uuid", "0+")


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    topic_names: list[str] = field(["string"], "0-5", default=[])
    topics: list[DeleteTopicState] = field([DeleteTopicState], "6+", default=[])
    timeout_ms: int = field("int32", "0+")


@nested
class DeletableTopicResult:
    name: str | None = field("string", "0+", nullable="6+")
    topic_id: Uuid = field("uuid", "6+", default=ZERO_UUID)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "5+", nullable="5+", default=None)


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = field("int32", "1+", default=0)
    responses: list[DeletableTopicResult] = field([DeletableTopicResult], "0+")
