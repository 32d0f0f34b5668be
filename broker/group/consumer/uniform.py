"""The uniform assignor for members that are subscribed to the same topics.

Everybody gets the same number of partitions, or one more; within that, partitions stay where they
are.  Pure.

Differences from Kafka: where Kafka walks a hash map, members are walked in the order of the
mapping, topics in that of `topic_order` and what a member has in the order of its assignment.  So
which member gets the one more, and which partitions an overloaded member gives up, can differ from
a Java broker's choice; how many each has, and how many move, do not.

Source: KIP-848; Kafka 4.3's UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import NOTHING, Assignment, MemberSubscription

FreePartition = tuple[int, int]
"""Position of the topic among the subscribed ones, partition: sorts as assignments are written."""

_topic_position = itemgetter(0)


def assign_homogeneous(
    members: Mapping[str, MemberSubscription], partition_counts: Mapping[Uuid, int]
) -> dict[str, Assignment]:
    """Everybody's new assignment; a member whose assignment stays keeps the very object.

    members           not empty; all with the same `topic_ids`; no partition is in two assignments
    partition_counts  of every subscribed topic; no assignment goes beyond it
    cost              linear in members and partitions: some 10 ms for 1,000 and 10,000
    """
    topic_ids = next(iter(members.values())).topic_ids
    if not topic_ids:
        return dict.fromkeys(members, NOTHING)
    positions = {topic_id: position for position, topic_id in enumerate(topic_ids)}
    free = _unassigned(members, topic_ids, partition_counts)
    total = sum(partition_counts[topic_id] for topic_id in topic_ids)
    kept, unfilled = _keep_within_quota(members, positions, free, total)
    start = 0
    for member_id, missing in unfilled:
        end = min(start + missing, len(free))
        if start < end:
            kept[member_id] = _joined(kept[member_id], free[start:end], positions, topic_ids)
        start = end
    assert start == len(free), "the quotas add up to all partitions"
    return kept


def _unassigned(
    members: Mapping[str, MemberSubscription],
    topic_ids: tuple[Uuid, ...],
    partition_counts: Mapping[Uuid, int],
) -> list[FreePartition]:
    """The partitions without an owner."""
    taken: dict[Uuid, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in members.values():
        for topic_id, partitions in member.assignment.items():
            of_topic = taken.get(topic_id)
            if of_topic is not None:
                of_topic.update(partitions)
    free: list[FreePartition] = []
    for position, topic_id in enumerate(topic_ids):
        of_topic = taken[topic_id]
        count = partition_counts[topic_id]
        if len(of_topic) < count:
            free += [(position, number) for number in range(count) if number not in of_topic]
    return free


def _keep_within_quota(
    members: Mapping[str, MemberSubscription],
    positions: Mapping[Uuid, int],
    free: list[FreePartition],
    total: int,
) -> tuple[dict[str, Assignment], list[tuple[str, int]]]:
    """Partitions that each member keeps, and how many more the others get; adds the rest to `free`.

    `total % len(members)` members get one more than the others.  A member that already has as many
    keeps them; the last members of the walk take those that are unclaimed by then.
    """
    quota, extras = divmod(total, len(members))
    kept: dict[str, Assignment] = {}
    unfilled: list[tuple[str, int]] = []
    members_left = len(members)
    for member_id, member in members.items():
        has_extra = extras > 0
        capacity = quota + has_extra
        keeps: dict[Uuid, tuple[int, ...]] = {}
        is_changed = False
        for topic_id, partitions in member.assignment.items():
            position = positions.get(topic_id)
            if position is None:
                is_changed = True
            elif len(partitions) <= capacity:
                capacity -= len(partitions)
                keeps[topic_id] = partitions
            else:
                is_changed = True
                free += [(position, number) for number in partitions[capacity:]]
                if capacity:
                    keeps[topic_id] = partitions[:capacity]
                    capacity = 0
        if capacity and has_extra and members_left > extras:
            capacity -= 1
            has_extra = False
        if capacity:
            unfilled.append((member_id, capacity))
        extras -= has_extra
        members_left -= 1
        kept[member_id] = keeps if is_changed else member.assignment
    return kept, unfilled


def _joined(
    kept: Assignment,
    more: list[FreePartition],
    positions: Mapping[Uuid, int],
    topic_ids: tuple[Uuid, ...],
) -> Assignment:
    """Add partitions to an assignment; returns topics and partitions in order."""
    merged = [
        (positions[topic_id], number) for topic_id, numbers in kept.items() for number in numbers
    ]
    merged += more
    merged.sort()
    return {
        topic_ids[position]: tuple([number for _, number in of_topic])
        for position, of_topic in groupby(merged, _topic_position)
    }
