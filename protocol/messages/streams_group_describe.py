"""StreamsGroupDescribe (key 89): shows topology, members and tasks of groups of Kafka Streams.

Introduced by KIP-1071, in Kafka 4.

Source: kafka.apache.org/protocol, StreamsGroupDescribe.
"""

from __future__ import annotations

from odradek.protocol.schema import (
    BOOL,
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


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest:
    group_ids: list[str] = field(ArrayOf(STRING), "0+")
    include_authorized_operations: bool = field(BOOL, "0+")


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
class Subtopology:
    subtopology_id: str = field(STRING, "0+")
    source_topics: list[str] = field(ArrayOf(STRING), "0+")
    repartition_sink_topics: list[str] = field(ArrayOf(STRING), "0+")
    state_changelog_topics: list[TopicInfo] = field(ArrayOf(TopicInfo), "0+")
    repartition_source_topics: list[TopicInfo] = field(ArrayOf(TopicInfo), "0+")


@nested
class Topology:
    epoch: int = field(INT32, "0+")
    subtopologies: list[Subtopology] | None = field(
        ArrayOf(Subtopology), "0+", nullable="0+", default=None
    )


@nested
class Endpoint:
    host: str = field(STRING, "0+")
    port: int = field(UINT16, "0+")


@nested
class TaskOffset:
    subtopology_id: str = field(STRING, "0+")
    partition: int = field(INT32, "0+")
    offset: int = field(INT64, "0+")


@nested
class TaskIds:
    subtopology_id: str = field(STRING, "0+")
    partitions: list[int] = field(ArrayOf(INT32), "0+")


@nested
class Assignment:
    active_tasks: list[TaskIds] = field(ArrayOf(TaskIds), "0+")
    standby_tasks: list[TaskIds] = field(ArrayOf(TaskIds), "0+")
    warmup_tasks: list[TaskIds] = field(ArrayOf(TaskIds), "0+")


@nested
class Member:
    member_id: str = field(STRING, "0+")
    member_epoch: int = field(INT32, "0+")
    instance_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rack_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    client_id: str = field(STRING, "0+")
    client_host: str = field(STRING, "0+")
    topology_epoch: int = field(INT32, "0+")
    process_id: str = field(STRING, "0+")
    user_endpoint: Endpoint | None = field(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = field(ArrayOf(KeyValue), "0+")
    task_offsets: list[TaskOffset] = field(ArrayOf(TaskOffset), "0+")
    task_end_offsets: list[TaskOffset] = field(ArrayOf(TaskOffset), "0+")
    assignment: Assignment = field(Assignment, "0+")
    target_assignment: Assignment = field(Assignment, "0+")
    is_classic: bool = field(BOOL, "0+")


@nested
class DescribedGroup:
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    group_id: str = field(STRING, "0+")
    group_state: str = field(STRING, "0+")
    group_epoch: int = field(INT32, "0+")
    assignment_epoch: int = field(INT32, "0+")
    topology: Topology | None = field(Topology, "0+", nullable="0+", default=None)
    members: list[Member] = field(ArrayOf(Member), "0+")
    authorized_operations: int = field(INT32, "0+", default=-2147483648)
    """Bit set of 1 << AclOperation; -2147483648 when it was not asked for."""


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    groups: list[DescribedGroup] = field(ArrayOf(DescribedGroup), "0+")
