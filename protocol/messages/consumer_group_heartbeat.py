"""ConsumerGroupHeartbeat (key 68): joins, keeps and leaves a group whose assignment the coordinator
makes.

    1   subscription by regular expression, member ids made by the client (KIP-1082)

Introduced by KIP-848.

Source: kafka.apache.org/protocol, ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class TopicPartitions:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[int] = field(["int32"], "0+")


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: str = field("string", "0+")
    member_id: str = field("string", "0+")
    member_epoch: int = field("int32", "0+")
    """0 joins, -1 leaves, -2 leaves for a while (static members)."""
    instance_id: str | None = field("string", "0+", nullable="0+", default=None)
    rack_id: str | None = field("string", "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    """-1 if unchanged."""
    subscribed_topic_names: list[str] | None = field(["string"], "0+", nullable="0+", default=None)
    """None if unchanged."""
    subscribed_topic_regex: str | None = field("string", "1+", nullable="1+", default=None)
    server_assignor: str | None = field("string", "0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(
        [TopicPartitions], "0+", nullable="0+", default=None
    )
    """What the member holds; None if unchanged."""


@nested
class Assignment:
    topic_partitions: list[TopicPartitions] = field([TopicPartitions], "0+")


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)
    member_id: str | None = field("string", "0+", nullable="0+", default=None)
    member_epoch: int = field("int32", "0+")
    heartbeat_interval_ms: int = field("int32", "0+")
    assignment: Assignment | None = field(Assignment, "0+", nullable="0+", default=None)
    """None if unchanged."""
