"""StreamsGroupHeartbeat (key 88): joins, keeps and leaves a group of Kafka Streams whose tasks the
coordinator assigns.

Introduced by KIP-1071, in Kafka 4.

Source: kafka.apache.org/protocol, StreamsGroupHeartbeat.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    ArrayOf,
    field,
    message,
    nested,
)


@nested
class KeyValue:
    key: str = field(STRING, "0+")
    value: str = field(STRING, "0+")


@nested
class TopicInfo:
    name: str = field(STRING, "0+")
    partitions: int = field(INT32, "0+")
    replication_factor: int = field(INT16, "0+")
    topic_configs: list[KeyValue] = field(ArrayOf(KeyValue), "0+")


@nested
class CopartitionGroup:
    source_topics: list[int] = field(ArrayOf(INT16), "0+")
    source_topic_regex: list[int] = field(ArrayOf(INT16), "0+")
    repartition_source_topics: list[int] = field(ArrayOf(INT16), "0+")


@nested
class Subtopology:
    subtopology_id: str = field(STRING, "0+")
    source_topics: list[str] = field(ArrayOf(STRING), "0+")
    source_topic_regex: list[str] = field(ArrayOf(STRING), "0+")
    state_changelog_topics: list[TopicInfo] = field(ArrayOf(TopicInfo), "0+")
    repartition_sink_topics: list[str] = field(ArrayOf(STRING), "0+")
    repartition_source_topics: list[TopicInfo] = field(ArrayOf(TopicInfo), "0+")
    copartition_groups: list[CopartitionGroup] = field(ArrayOf(CopartitionGroup), "0+")


@nested
class Topology:
    epoch: int = field(INT32, "0+")
    subtopologies: list[Subtopology] = field(ArrayOf(Subtopology), "0+")


@nested
class TaskIds:
    subtopology_id: str = field(STRING, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@nested
class Endpoint:
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@nested
class TaskOffset:
    subtopology_id: str = field(STRING, "0+")
    partition: int = field(INT32, "0+")
    offset: int = field(INT64, "0+")


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    group_id: str = field(STRING, "0+")
    member_id: str = field(STRING, "0+")
    member_epoch: int = field(INT32, "0+")
    """0 joins, -1 leaves, -2 leaves for a while (static members)."""
    endpoint_information_epoch: int = field(INT32, "0+")
    instance_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rack_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = field(INT32, "0+", default=-1)
    topology: Topology | None = field(Topology, "0+", nullable="0+", default=None)
    """None if unchanged."""
    active_tasks: list[TaskIds] | None = field(ArrayOf(TaskIds), "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(ArrayOf(TaskIds), "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(ArrayOf(TaskIds), "0+", nullable="0+", default=None)
    process_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = field(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field(ArrayOf(KeyValue), "0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field(
        ArrayOf(TaskOffset), "0+", nullable="0+", default=None
    )
    task_end_offsets: list[TaskOffset] | None = field(
        ArrayOf(TaskOffset), "0+", nullable="0+", default=None
    )
    shutdown_application: bool = field(BOOL, "0+", default=False)


@nested
class Status:
    status_code: int = field(INT8, "0+")
    status_detail: str = field(STRING, "0+")


@nested
class TopicPartition:
    topic: str = field(STRING, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@nested
class EndpointToPartitions:
    user_endpoint: Endpoint = field(Endpoint, "0+")
    active_partitions: list[TopicPartition] = field(ArrayOf(TopicPartition), "0+")
    standby_partitions: list[TopicPartition] = field(ArrayOf(TopicPartition), "0+")


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str = field(STRING, "0+")
    member_epoch: int = field(INT32, "0+")
    heartbeat_interval_ms: int = field(INT32, "0+")
    acceptable_recovery_lag: int = field(INT32, "0+")
    task_offset_interval_ms: int = field(INT32, "0+")
    status: list[Status] | None = field(ArrayOf(Status), "0+", nullable="0+")
    active_tasks: list[TaskIds] | None = field(ArrayOf(TaskIds), "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(ArrayOf(TaskIds), "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(ArrayOf(TaskIds), "0+", nullable="0+", default=None)
    endpoint_information_epoch: int = field(INT32, "0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        ArrayOf(EndpointToPartitions), "0+", nullable="0+", default=None
    )
