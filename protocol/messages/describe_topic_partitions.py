"""DescribeTopicPartitions (key 75): lists partitions of topics, page by page.

Introduced by KIP-966.

Source: kafka.apache.org/protocol, DescribeTopicPartitions.
"""

from __future__ import annotations

from uuid import UUID as Uuid

from odradek.protocol.schema import field, message, nested


@nested
class TopicRequest:
    name: str = field("string", "0+")


@nested
class Cursor:
    topic_name: str = field("string", "0+")
    partition_index: int = field("int32", "0+")


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field([TopicRequest], "0+")
    response_partition_limit: int = field("int32", "0+", default=2000)
    cursor: Cursor | None = field(Cursor, "0+", nullable="0+", default=None)
    """Where to go on; None from the start."""


@nested
class DescribeTopicPartitionsResponsePartition:
    error_code: int = field("int16", "0+")
    partition_index: int = field("int32", "0+")
    leader_id: int = field("int32", "0+")
    """-1 if there is none."""
    leader_epoch: int = field("int32", "0+", default=-1)
    replica_nodes: list[int] = field(["int32"], "0+")
    isr_nodes: list[int] = field(["int32"], "0+")
    eligible_leader_replicas: list[int] | None = field(["int32"], "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = field(["int32"], "0+", nullable="0+", default=None)
    offline_replicas: list[int] = field(["int32"], "0+")


@nested
class DescribeTopicPartitionsResponseTopic:
    error_code: int = field("int16", "0+")
    name: str | None = field("string", "0+", nullable="0+")
    topic_id: Uuid = field("uuid", "0+")
    is_internal: bool = field("bool", "0+", default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        [DescribeTopicPartitionsResponsePartition], "0+"
    )
    topic_authorized_operations: int = field("int32", "0+", default=-2147483648)
    """Bit set of 1 << AclOperation; -2147483648 when it was not asked for."""


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        [DescribeTopicPartitionsResponseTopic], "0+"
    )
    next_cursor: Cursor | None = field(Cursor, "0+", nullable="0+", default=None)
    """None at the end."""
