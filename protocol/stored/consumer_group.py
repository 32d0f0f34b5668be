"""Consumer groups (KIP-848), as stored in `__consumer_offsets`.

Key: int16 record type (3 to 8 and 16, the version of the key), then the fields.  Value: int16
version, then the fields; no value at all deletes what the key names.  The fields with tags that
Kafka 3.9 does not write came with Kafka 4.

Source: KIP-848; the records of Kafka's group coordinator.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import (
    BYTES,
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    ArrayOf,
    field,
    message,
    nested,
)


@message(versions="3")
class ConsumerGroupMetadataKey:
    group_id: str = field(STRING, "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int = field(INT32, "0+")
    metadata_hash: int = field(INT64, "0+", tag=0, default=0)


@message(versions="4")
class ConsumerGroupPartitionMetadataKey:
    group_id: str = field(STRING, "0+")


@nested
class PartitionMetadata:
    partition: int = field(INT32, "0+")
    racks: list[str] = field(ArrayOf(STRING), "0+")


@nested
class TopicMetadata:
    topic_id: Uuid = field(UUID, "0+")
    topic_name: str = field(STRING, "0+")
    num_partitions: int = field(INT32, "0+")
    partition_metadata: list[PartitionMetadata] = field(ArrayOf(PartitionMetadata), "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = field(ArrayOf(TopicMetadata), "0+")


@message(versions="5")
class ConsumerGroupMemberMetadataKey:
    group_id: str = field(STRING, "0+")
    member_id: str = field(STRING, "0+")


@nested
class ClassicProtocol:
    name: str = field(STRING, "0+")
    metadata: bytes = field(BYTES, "0+")


@nested
class ClassicMemberMetadata:
    session_timeout_ms: int = field(INT32, "0+", default=0)
    supported_protocols: list[ClassicProtocol] = field(ArrayOf(ClassicProtocol), "0+", default=[])


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = field(STRING, "0+", nullable="0+")
    rack_id: str | None = field(STRING, "0+", nullable="0+")
    client_id: str = field(STRING, "0+")
    client_host: str = field(STRING, "0+")
    subscribed_topic_names: list[str] = field(ArrayOf(STRING), "0+")
    subscribed_topic_regex: str | None = field(STRING, "0+", nullable="0+")
    rebalance_timeout_ms: int = field(INT32, "0+", default=-1)
    server_assignor: str | None = field(STRING, "0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0, default=ClassicMemberMetadata()
    )
    """None for a member of the consumer protocol.  An absent tag would mean an empty structure, so
    None is written."""


@message(versions="6")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = field(STRING, "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = field(INT32, "0+")
    assignment_timestamp_ms: int = field(INT64, "0+", tag=0, default=0)


@message(versions="7")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = field(STRING, "0+")
    member_id: str = field(STRING, "0+")


@nested
class TopicPartition:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = field(ArrayOf(TopicPartition), "0+")


@message(versions="8")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = field(STRING, "0+")
    member_id: str = field(STRING, "0+")


@nested
class TopicPartitions:
    topic_id: Uuid = field(UUID, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")
    assignment_epochs: list[int] | None = field(
        ArrayOf(INT32), "0+", nullable="0+", tag=0, default=[]
    )


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = field(INT32, "0+")
    previous_member_epoch: int = field(INT32, "0+")
    state: int = field(INT8, "0+")
    """0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown."""
    assigned_partitions: list[TopicPartitions] = field(ArrayOf(TopicPartitions), "0+")
    partitions_pending_revocation: list[TopicPartitions] = field(ArrayOf(TopicPartitions), "0+")


@message(versions="16")
class ConsumerGroupRegularExpressionKey:
    group_id: str = field(STRING, "0+")
    regular_expression: str = field(STRING, "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = field(ArrayOf(STRING), "0+")
    version: int = field(INT64, "0+")
    """Version of the metadata image in which the topics were matched."""
    timestamp_ms: int = field(INT64, "0+")
