"""Consumer groups (KIP-848), as stored in `__consumer_offsets`.

Key: int16 record type (3 to 8 and 16, the version of the key), then the fields.  Value: int16
version, then the fields; no value at all deletes what the key names.  The fields with tags that
Kafka 3.9 does not write came with Kafka 4.

Source: KIP-848; the records of Kafka's group coordinator.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@message(versions="3")
class ConsumerGroupMetadataKey:
    group_id: str = field("string", "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int = field("int32", "0+")
    metadata_hash: int = field("int64", "0+", tag=0, default=0)


@message(versions="4")
class ConsumerGroupPartitionMetadataKey:
    group_id: str = field("string", "0+")


@nested
class PartitionMetadata:
    partition: int = field("int32", "0+")
    racks: list[str] = field(["string"], "0+")


@nested
class TopicMetadata:
    topic_id: Uuid = field("uuid", "0+")
    topic_name: str = field("string", "0+")
    num_partitions: int = field("int32", "0+")
    partition_metadata: list[PartitionMetadata] = field([PartitionMetadata], "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = field([TopicMetadata], "0+")


@message(versions="5")
class ConsumerGroupMemberMetadataKey:
    group_id: str = field("string", "0+")
    member_id: str = field("string", "0+")


@nested
class ClassicProtocol:
    name: str = field("string", "0+")
    metadata: bytes = field("bytes", "0+")


@nested
class ClassicMemberMetadata:
    session_timeout_ms: int = field("int32", "0+", default=0)
    supported_protocols: list[ClassicProtocol] = field([ClassicProtocol], "0+", default=[])


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = field("string", "0+", nullable="0+")
    rack_id: str | None = field("string", "0+", nullable="0+")
    client_id: str = field("string", "0+")
    client_host: str = field("string", "0+")
    subscribed_topic_names: list[str] = field(["string"], "0+")
    subscribed_topic_regex: str | None = field("string", "0+", nullable="0+")
    rebalance_timeout_ms: int = field("int32", "0+", default=-1)
    server_assignor: str | None = field("string", "0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0, default=ClassicMemberMetadata()
    )
    """None for a member of the consumer protocol.  An absent tag would mean an empty structure, so
    None is written."""


@message(versions="6")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = field("string", "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = field("int32", "0+")
    assignment_timestamp_ms: int = field("int64", "0+", tag=0, default=0)


@message(versions="7")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = field("string", "0+")
    member_id: str = field("string", "0+")


@nested
class TopicPartition:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[int] = field(["int32"], "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = field([TopicPartition], "0+")


@message(versions="8")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = field("string", "0+")
    member_id: str = field("string", "0+")


@nested
class TopicPartitions:
    topic_id: Uuid = field("uuid", "0+")
    partitions: list[int] = field(["int32"], "0+")
    assignment_epochs: list[int] | None = field(["int32"], "0+", nullable="0+", tag=0, default=[])


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = field("int32", "0+")
    previous_member_epoch: int = field("int32", "0+")
    state: int = field("int8", "0+")
    """0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown."""
    assigned_partitions: list[TopicPartitions] = field([TopicPartitions], "0+")
    partitions_pending_revocation: list[TopicPartitions] = field([TopicPartitions], "0+")


@message(versions="16")
class ConsumerGroupRegularExpressionKey:
    group_id: str = field("string", "0+")
    regular_expression: str = field("string", "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = field(["string"], "0+")
    version: int = field("int64", "0+")
    """Version of the metadata image in which the topics were matched."""
    timestamp_ms: int = field("int64", "0+")
