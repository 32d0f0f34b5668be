"""CreatePartitions (key 37): adds partitions to topics.

    2   flexible encoding (KIP-482)
    3   the client understands THROTTLING_QUOTA_EXCEEDED (KIP-599)

Introduced by KIP-195.

Source: kafka.apache.org/protocol, CreatePartitions.
"""

from __future__ import annotations

from odradek.protocol.schema import BOOL, INT16, INT32, STRING, ArrayOf, field, message, nested


@nested
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(ArrayOf(INT32), "0+")


@nested
class CreatePartitionsTopic:
    name: str = field(STRING, "0+")
    count: int = field(INT32, "0+")
    """The new number, old partitions included."""
    assignments: list[CreatePartitionsAssignment] | None = field(
        ArrayOf(CreatePartitionsAssignment), "0+", nullable="0+"
    )
    """Replicas of the new partitions only; None lets the broker place them."""


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(ArrayOf(CreatePartitionsTopic), "0+")
    timeout_ms: int = field(INT32, "0+")
    validate_only: bool = field(BOOL, "0+")


@nested
class CreatePartitionsTopicResult:
    name: str = field(STRING, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[CreatePartitionsTopicResult] = field(ArrayOf(CreatePartitionsTopicResult), "0+")
