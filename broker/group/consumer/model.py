"""Values of consumer groups: members, assignments, subscriptions, topics.

All of them and the mappings in them are immutable.  What is a hash map in Kafka has an order here,
so that the same events have the same results in every process.

Invariants: no topic has an empty entry; partitions of a topic ascend; the assigned partitions of a
member and those that it must revoke are disjoint.

Source: KIP-848, KIP-1251 (assignment epochs); Kafka 4.3's ConsumerGroupMember, Assignment,
MemberState.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple
from uuid import UUID as Uuid

from odradek.broker.group.classic.events import Protocols

Assignment = Mapping[Uuid, tuple[int, ...]]
"""Topic id -> its partitions, ascending and never empty: a target assignment."""

OwnedPartitions = Mapping[Uuid, Mapping[int, int]]
"""Topic id -> partition (ascending) -> the member epoch in which it was assigned."""

NOTHING: Final[Assignment] = {}
"""The empty assignment."""
NOTHING_OWNED: Final[OwnedPartitions] = {}


class MemberState(IntEnum):
    """How far a member is reconciled; the numbers are stored."""

    STABLE = 0
    """It owns its part of the target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions before it gets the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the latest epoch and waits for partitions that others have not revoked yet."""
    UNKNOWN = 127
    """A stored number that this release does not know."""

    @classmethod
    def of(cls, number: int) -> MemberState:
        """The state of a stored number."""
        return _STATES.get(number, cls.UNKNOWN)


_STATES: Final = {state.value: state for state in MemberState}


class SubscriptionType(StrEnum):
    """Whether all members are subscribed to the same topics."""

    HOMOGENEOUS = "Homogeneous"
    HETEROGENEOUS = "Heterogeneous"


class ClassicMetadata(NamedTuple):
    """The fields of a member of the classic protocol; a downgrade needs them."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member, as its records describe it."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    """None: not a static member."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    """Ascending, without repetitions."""
    subscribed_topic_regex: str | None = None
    """None or empty: no expression."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    assigned_partitions: OwnedPartitions = field(default_factory=dict)
    partitions_pending_revocation: OwnedPartitions = field(default_factory=dict)
    """Partitions to revoke; it owns them until it reports that it does not."""
    classic: ClassicMetadata | None = None
    """None: it uses the consumer protocol."""


class MemberSubscription(NamedTuple):
    """A member as an assignor sees it."""

    topic_ids: tuple[Uuid, ...]
    """Subscribed topics that exist, each once, in the order of `topic_order`."""
    assignment: Assignment = NOTHING
    """Its present target."""
    instance_id: str | None = None
    rack_id: str | None = None
    """For assignors that place by rack; the ones of Kafka 4 do not."""


class TopicFacts(NamedTuple):
    """A topic as groups see it."""

    topic_id: Uuid
    name: str
    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()
    """Racks of each partition's replicas, ascending; empty where none are known."""


_SIGN_BITS: Final = 1 << 127 | 1 << 63


def topic_order(topic_id: Uuid) -> int:
    """Sorts topic ids as Kafka does: as two signed numbers of 64 bits."""
    return topic_id.int ^ _SIGN_BITS
