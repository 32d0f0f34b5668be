"""What consumers of the classic protocol say to each other, read and written by the coordinator.

In a group of the new protocol it does for its classic members what their leader did: it reads their
subscriptions and writes their assignments.

Pure.  Source: Kafka's ConsumerProtocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from odradek.broker.group.consumer.model import Assignment
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

NEWEST: Final = 3
_VERSION: Final = Struct(">h")


def read_version(data: bytes) -> int:
    """The version of what a member says, or the newest that is known.

    raises  DecodeError
    """
    if len(data) < _VERSION.size:
        raise DecodeError("the embedded protocol without a version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"the embedded protocol in version {version}")
    return min(int(version), NEWEST)


def _read(kind: type, data: bytes) -> Any:
    return decoder(kind, read_version(data))(memoryview(data), _VERSION.size)[0]


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member subscribes to, and what it has if it gives up only what it must.

    raises  DecodeError
    """
    subscription: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, data)
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a leader has given a member; no bytes at all give nothing.

    raises  DecodeError
    """
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    assignment: ConsumerProtocolAssignment = _read(ConsumerProtocolAssignment, data)
    return assignment


def write_assignment(
    partitions: Assignment | Mapping[Any, Mapping[int, int]], topics: TopicDirectory, version: int
) -> bytes:
    """What a member has, in topics that exist."""
    told = [
        TopicPartition(topic=facts.name, partitions=list(indexes))
        for topic_id, indexes in partitions.items()
        if (facts := topics.by_id(topic_id)) is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=told)
    return _VERSION.pack(version) + encoder(ConsumerProtocolAssignment, version)(message)


def by_id(partitions: list[TopicPartition], topics: TopicDirectory) -> ReportedPartitions:
    """Partitions of topics that exist."""
    return [
        (facts.topic_id, one.partitions)
        for one in partitions
        if (facts := topics.by_name(one.topic)) is not None
    ]
