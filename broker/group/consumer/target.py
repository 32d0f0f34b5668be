"""Computes a group's target assignment, and which parts of it must be stored.

Pure.  The target is computed from subscriptions, topics and the present target; `reconcile` takes
the members to it step by step.

Source: KIP-848; Kafka 4.3's TargetAssignmentBuilder and ConsumerGroup.subscriptionType.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID as Uuid

from odradek.broker.group.consumer.assignors import Assignor
from odradek.broker.group.consumer.model import (
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberSubscription,
    SubscriptionType,
    TopicFacts,
    topic_order,
)


class Target(NamedTuple):
    """A target assignment."""

    assignments: dict[str, Assignment]
    """Assignments of all members, by member id."""
    changed: dict[str, Assignment]
    """Assignments that differ from the present target or are not in it; they are stored before the
    assignment epoch."""


class Subscriptions:
    """The existing topics that members subscribe to.  Members share equal results.

    topics    by name
    resolved  regular expression -> the names that it matches; one that is not in it matches none
    """

    def __init__(
        self, topics: Mapping[str, TopicFacts], resolved: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._topics = topics
        self._resolved = resolved
        self._known: dict[tuple[tuple[str, ...], str], tuple[Uuid, ...]] = {}
        self.partition_counts: dict[Uuid, int] = {}
        """Numbers of partitions of all topics that were in a result."""

    def topic_ids(self, member: ConsumerMember) -> tuple[Uuid, ...]:
        """The ids of the topics, each once, in the order of `topic_order`."""
        regex = member.subscribed_topic_regex or ""
        key = (member.subscribed_topic_names, regex)
        topic_ids = self._known.get(key)
        if topic_ids is None:
            names = dict.fromkeys(member.subscribed_topic_names)
            if regex:
                names.update(dict.fromkeys(self._resolved.get(regex, ())))
            topics = [self._topics[name] for name in names if name in self._topics]
            counts = {facts.topic_id: facts.partition_count for facts in topics}
            self.partition_counts.update(counts)
            topic_ids = self._known[key] = tuple(sorted(counts, key=topic_order))
        return topic_ids


def subscription_type(members: Iterable[ConsumerMember]) -> SubscriptionType:
    """Whether all are subscribed to the same names, or all to the same expression and no name."""
    kinds = dict.fromkeys(
        (member.subscribed_topic_names, member.subscribed_topic_regex or "") for member in members
    )
    # An expression together with names counts as heterogeneous even if all members say the same.
    if len(kinds) > 1 or any(names and regex for names, regex in kinds):
        return SubscriptionType.HETEROGENEOUS
    return SubscriptionType.HOMOGENEOUS


def plan_target(
    members: Mapping[str, ConsumerMember],
    present: Mapping[str, Assignment],
    *,
    assignor: Assignor,
    topics: Mapping[str, TopicFacts],
    resolved: Mapping[str, tuple[str, ...]],
    inherits: Mapping[str, str] | None = None,
) -> Target:
    """The target for the present members.

    present   the present target by member id; may name former members
    topics    by name; subscribed names that are not in it are left out
    resolved  regular expression -> names that it matches
    inherits  id of a static member that has restarted -> its former id, whose target it inherits
    cost      the assignor's and as much again; see `uniform`
    """
    inherits = inherits or {}
    subscriptions = Subscriptions(topics, resolved)
    # Sorted, so that the result does not depend on the order in which members have joined.
    topic_ids = {
        member_id: subscriptions.topic_ids(members[member_id]) for member_id in sorted(members)
    }
    valid = _ValidTargets(subscriptions.partition_counts)
    seen = {
        member_id: MemberSubscription(
            subscribed,
            valid.claim(present.get(inherits.get(member_id, member_id), NOTHING)),
            members[member_id].instance_id,
            members[member_id].rack_id,
        )
        for member_id, subscribed in topic_ids.items()
    }
    kind = subscription_type(members.values())
    assignments = assignor(seen, kind, subscriptions.partition_counts)
    changed = {
        member_id: assignment
        for member_id, assignment in assignments.items()
        if assignment != present.get(member_id)
    }
    return Target(assignments, changed)


class _ValidTargets:
    """The valid part of the present target: no partition twice, none that does not exist, no topic
    without subscribers.

    The log of another coordinator may have partitions that are not in this broker's metadata yet.
    """

    def __init__(self, partition_counts: Mapping[Uuid, int]) -> None:
        self.partition_counts = partition_counts
        self._claimed: dict[Uuid, set[int]] = {}

    def claim(self, assignment: Assignment) -> Assignment:
        """The valid part of an assignment; usually the same object."""
        for topic_id, partitions in assignment.items():
            claimed = self._claimed.setdefault(topic_id, set())
            count = self.partition_counts.get(topic_id, 0)
            if partitions[-1] >= count or not claimed.isdisjoint(partitions):
                return self._repaired(assignment)
        for topic_id, partitions in assignment.items():
            self._claimed[topic_id].update(partitions)
        return assignment

    def _repaired(self, assignment: Assignment) -> Assignment:
        repaired: dict[Uuid, tuple[int, ...]] = {}
        for topic_id, partitions in assignment.items():
            claimed = self._claimed.setdefault(topic_id, set())
            count = self.partition_counts.get(topic_id, 0)
            remaining = tuple(
                partition
                for partition in partitions
                if partition < count and partition not in claimed
            )
            if remaining:
                claimed.update(remaining)
                repaired[topic_id] = remaining
        return repaired
