"""Subscriptions and assignments of a classic consumer group, inside JoinGroup and SyncGroup.

The bytes are an int16 version and one of these structures; a reader that does not know the version
reads the fields that it knows.  Brokers read the topics only, to know which ones a group consumes.

    1   partitions that a member owns (KIP-429)
    2   generation of the owned partitions (KIP-792)
    3   rack (KIP-881)

Source: ConsumerProtocol of Kafka.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class TopicPartition:
    topic: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = field(["string"], "0+")
    user_data: bytes | None = field("bytes", "0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field([TopicPartition], "1+", default=[])
    generation_id: int = field("int32", "2+", default=-1)
    """-1 if unknown."""
    rack_id: str | None = field("string", "3+", nullable="3+", default=None)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = field([TopicPartition], "0+")
    user_data: bytes | None = field("bytes", "0+", nullable="0+", default=None)
