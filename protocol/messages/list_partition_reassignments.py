"""ListPartitionReassignments (key 46): shows the moves of replicas that are under way.

Introduced by KIP-455.

Source: kafka.apache.org/protocol, ListPartitionReassignments.
"""

from __future__ import annotations

from odradek.protocol.schema import INT16, INT32, STRING, ArrayOf, field, message, nested


@nested
class ListPartitionReassignmentsTopics:
    name: str = field(STRING, "0+")
    partition_indexes: list[int] = field(ArrayOf(INT32), "0+")


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: int = field(INT32, "0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        ArrayOf(ListPartitionReassignmentsTopics), "0+", nullable="0+", default=None
    )
    """None asks for all."""


@nested
class OngoingPartitionReassignment:
    partition_index: int = field(INT32, "0+")
    replicas: list[int] = field(ArrayOf(INT32), "0+")
    adding_replicas: list[int] = field(ArrayOf(INT32), "0+")
    removing_replicas: list[int] = field(ArrayOf(INT32), "0+")


@nested
class OngoingTopicReassignment:
    name: str = field(STRING, "0+")
    partitions: list[OngoingPartitionReassignment] = field(
        ArrayOf(OngoingPartitionReassignment), "0+"
    )


@message(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field(ArrayOf(OngoingTopicReassignment), "0+")
