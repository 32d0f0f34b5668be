"""Share groups, as stored in `__consumer_offsets`: early access in Kafka 3.9.

Key: int16 record type (9 to 11, the version of the key), then the fields.  Value: int16 version,
then the fields.

Source: KIP-932; the records of Kafka's group coordinator.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@message(versions="9")
class ShareGroupPartitionMetadataKey:
    group_id: str = field("string", "0+")


@nested
class TopicPartitionsInfo:
    topic_id: Uuid = field("uuid", "0+")
    topic_name: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@nested
class TopicInfo:
    topic_id: Uuid = field("uuid", "0+")
    topic_name: str = field("string", "0+")


@message(versions="0", flexible="0+")
class ShareGroupPartitionMetadataValue:
    initialized_topics: list[TopicPartitionsInfo] = field([TopicPartitionsInfo], "0+")
    deleting_topics: list[TopicInfo] = field([TopicInfo], "0+")


@message(versions="10")
class ShareGroupMemberMetadataKey:
    group_id: str = field("string", "0+")
    member_id: str = field("string", "0+")


@message(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    rack_id: str | None = field("string", "0+", nullable="0+")
    client_id: str = field("string", "0+")
    client_host: str = field("string", "0+")
    subscribed_topic_names: list[str] = field(["string"], "0+")


@message(versions="11")
class ShareGroupMetadataKey:
    group_id: str = field("string", "0+")


@message(versions="0", flexible="0+")
class ShareGroupMetadataValue:
    epoch: int = field("int32", "0+")
    metadata_hash: int = field("int64", "0+")
