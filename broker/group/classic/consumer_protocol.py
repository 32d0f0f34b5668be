"""The protocol metadata and assignments of consumers in a classic group.

Pure.  Source: Kafka's ConsumerProtocol, ClassicGroup.isSubscribedToTopic.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from odradek.broker.group.classic.state import ClassicGroup
from odradek.protocol.compiler import decoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of groups whose subscriptions and assignments a broker can read."""
NEWEST: Final = 3
VERSION: Final = Struct(">h")


def read_version(data: bytes) -> int:
    """The version of a subscription or assignment, at most the newest that is known.

    raises  DecodeError
    """
    if len(data) < VERSION.size:
        raise DecodeError("the embedded protocol without a version")
    (version,) = VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"the embedded protocol in version {version}")
    return min(int(version), NEWEST)


def _read(kind: type, data: bytes) -> Any:
    return decoder(kind, read_version(data))(memoryview(data), VERSION.size)[0]


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription, and the partitions that it owns if it rebalances cooperatively.

    raises  DecodeError
    """
    subscription: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, data)
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment as the leader has written it; empty for no bytes.

    raises  DecodeError
    """
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    assignment: ConsumerProtocolAssignment = _read(ConsumerProtocolAssignment, data)
    return assignment


def subscribed_topics(group: ClassicGroup) -> dict[str, None] | None:
    """The topics that the members subscribe to.

    None if the group has another protocol type, or if a subscription is malformed.
    """
    topics: dict[str, None] = {}
    if group.protocol_type != CONSUMER_PROTOCOL or (group.members and group.protocol is None):
        return None
    for member in group.members.values():
        try:
            subscription = read_subscription(member.metadata(group.protocol))
        except DecodeError:
            return None
        topics.update(dict.fromkeys(subscription.topics))
    return topics
