"""CreatePartitions (key 37): adds partitions to topics.

    2   flexible encoding (KIP-482)
    3   the client understands THROTTLING_QUOTA_EXCEEDED (KIP-599)

Introduced by KIP-195.

Source: kafka.apache.org/protocol, CreatePartitions.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@nested
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(["int32"], "0+")


@nested
class CreatePartitionsTopic:
    name: str = field("string", "0+")
    count: int = field("int32", "0+")
    """The new number, old partitions included."""
    assignments: list[CreatePartitionsAssignment] | None = field(
        [CreatePartitionsAssignment], "0+", nullable="0+"
    )
    """Replicas of the new partitions only; None lets the broker place them."""


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field([CreatePartitionsTopic], "0+")
    timeout_ms: int = field("int32", "0+")
    validate_only: bool = field("bool", "0+")


@nested
class CreatePartitionsTopicResult:
    name: str = field("string", "0+")
    error_code: int = field("int16", "0+")
    error_message: str | None = field("string", "0+", nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[CreatePartitionsTopicResult] = field([CreatePartitionsTopicResult], "0+")
