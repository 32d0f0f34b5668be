"""The assignors that the coordinator knows, by the names that `group.consumer.assignors` gives.

The range assignor gives each subscriber of a topic a run of its partitions; the uniform one
balances partitions over their subscribers, and moves as few as possible.
Source: KIP-848; Kafka 4.3's UniformAssignor and RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import (
    Assignment,
    MemberSubscription,
    SubscriptionType,
    topic_order,
)
from odradek.broker.group.consumer.uniform import assign_homogeneous
from odradek.broker.group.consumer.uniform_heterogeneous import assign_heterogeneous

Assignor = Callable[
    [Mapping[str, MemberSubscription], SubscriptionType, Mapping[Uuid, int]], dict[str, Assignment]
]
"""Members by id, whether they subscribe alike, partition counts of the topics -> what each gets."""

UNIFORM: Final = "uniform"
RANGE: Final = "range"


def assign_range(
    members: Mapping[str, MemberSubscription],
    subscription_type: SubscriptionType,
    partition_counts: Mapping[Uuid, int],
) -> dict[str, Assignment]:
    """A run of each topic for each of its subscribers, whether they subscribe alike or not.

    partition_counts  of every subscribed topic
    cost              linear in partitions and, where subscriptions differ, in members times topics
    """
    ranked = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    made: list[dict[Uuid, tuple[int, ...]]] = [{} for _ in ranked]
    distinct = {
        id(subscription.topic_ids): subscription.topic_ids for subscription in members.values()
    }
    subscribers: dict[Uuid, Sequence[int]]
    if len(distinct) == 1:
        everybody = range(len(ranked))
        subscribers = dict.fromkeys(next(iter(distinct.values())), everybody)
    else:
        subscribers = _subscribers([members[member_id].topic_ids for member_id in ranked])
    for topic_id, of_topic in subscribers.items():
        ranges = _ranges(partition_counts[topic_id], len(of_topic))
        for member, partitions in zip(of_topic, ranges, strict=False):
            made[member][topic_id] = partitions
    return dict(zip(ranked, made, strict=True))


def _subscribers(subscriptions: list[tuple[Uuid, ...]]) -> dict[Uuid, Sequence[int]]:
    """Topic -> the positions of its subscribers, ascending; topics by `topic_order`."""
    subscribers: dict[Uuid, list[int]] = {}
    for member, topic_ids in enumerate(subscriptions):
        for topic_id in topic_ids:
            subscribers.setdefault(topic_id, []).append(member)
    return {topic_id: subscribers[topic_id] for topic_id in sorted(subscribers, key=topic_order)}


def _ranges(partition_count: int, subscriber_count: int) -> Iterator[tuple[int, ...]]:
    """A topic's partitions in as many runs as it has subscribers, or as there are partitions if
    they are fewer; the first runs are the longer ones."""
    quota, extras = divmod(partition_count, subscriber_count)
    start = 0
    while start < partition_count:
        end = start + quota + (extras > 0)
        extras -= 1
        yield tuple(range(start, end))
        start = end


def _rank(member_id: str, member: MemberSubscription) -> tuple[bool, bytes]:
    """Where a member stands.  Java compares strings by their units of UTF-16."""
    is_dynamic = member.instance_id is None
    name = member_id if member.instance_id is None else member.instance_id
    return is_dynamic, name.encode("utf-16-be", "surrogatepass")


def assign_uniform(
    members: Mapping[str, MemberSubscription],
    subscription_type: SubscriptionType,
    partition_counts: Mapping[Uuid, int],
) -> dict[str, Assignment]:
    """Balance partitions over their subscribers, and move as few partitions as possible."""
    if not members:
        return {}
    if subscription_type is SubscriptionType.HOMOGENEOUS:
        return assign_homogeneous(members, partition_counts)
    return assign_heterogeneous(members, partition_counts)


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
"""The first one is the default, as in Kafka."""
