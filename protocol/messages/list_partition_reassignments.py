"""ListPartitionReassignments (key 46): shows the moves of replicas that are under way.

Introduced by KIP-455.

Source: kafka.apache.org/protocol, ListPartitionReassignments.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class ListPartitionReassignmentsTopics:
    name: str = field("string", "0+")
    partition_indexes: list[int] = field(["int32"], "0+")


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: int = field("int32", "0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        [ListPartitionReassignmentsTopics], "0+", nullable="0+", default=None
    )
    """None asks for all."""


@nested
class OngoingPartitionReassignment:
    partition_index: int = field("int32", "0+")
    replicas: list[int] = field(["int32"], "0+")
    adding_replicas: list[int] = field(["int32"], "0+")
    removing_replicas: list[int] = field(["int32"], "0+")


@nested
class OngoingTopicReassignment:
    name: str = field("string", "0+")
    partitions: list[OngoingPartitionReassignment] = field([OngoingPartitionReassignment], "0+")


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field([OngoingTopicReassignment], "0+")
