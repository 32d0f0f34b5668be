"""ShareGroupHeartbeat (key 76): joins, keeps and leaves a share group.

    0   early access in 3.9 and 4.0, incompatible by agreement
    1   stable (KIP-932)

Source: kafka.apache.org/protocol, ShareGroupHeartbeat.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@message(api_key=76, versions="0-1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: str = field("string", "0+")
    member_id: str = field("string", "0+")
    member_epoch: int = field("int32", "0+")
    """0 joins, -1 leaves."""
    rack_id: str | None = field("string", "0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(["string"], "0+", nullable="0+", default=None)
    """None if unchanged."""


@nested
class TopicPartitions:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[int] = field(["int32"], "0+")


@nested
class Assignment:
    topic_partitions: list[TopicPartitions] = field([TopicPartitions], "0+")


@message(api_key=76, versions="0-1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    member_id: str | None = field("string", "0+", nullable="0+", default=None)
    member_epoch: int = field("int32", "0+")
    heartbeat_interval_ms: int = field("int32", "0+")
    assignment: Assignment | None = field(Assignment, "0+", nullable="0+", default=None)
    """None if unchanged."""
