"""The uniform assignor for members that are subscribed to different topics.

Partitions stay where they are as far as their owner is still subscribed; what is free goes, topic
by topic, to the least loaded subscribers; then, topic by topic, partitions move from the most to
the least loaded subscribers until no topic's subscribers differ by more than one, or
`PASSES_MAX` passes are over.  Where subscriptions overlap without being the same, the result is
nearly balanced only.  Pure.

Members are numbered in the order of the mapping and topics in that of `topic_order`; ties are
decided by these numbers.  Kafka numbers members in the order of a hash map, so with the same
members another one of equally loaded ones can be chosen.

Source: KIP-848; Kafka 4.3's UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import NOTHING, Assignment, MemberSubscription, topic_order

PASSES_MAX: Final = 16
"""Passes over all topics of the last step; a pass about halves what is uneven."""
NO_MEMBER: Final = -1


def assign_heterogeneous(
    members: Mapping[str, MemberSubscription], partition_counts: Mapping[Uuid, int]
) -> dict[str, Assignment]:
    """Everybody's new assignment; a member whose assignment stays keeps the very object.

    members           no partition is in two assignments
    partition_counts  of every subscribed topic; no assignment goes beyond it
    cost              linear in subscriptions (members times their topics) and partitions, some
                      ten times that where subscriptions overlap badly
    """
    plan = _Plan(members, partition_counts)
    plan.keep()
    plan.assign_free()
    plan.balance()
    return plan.assignments()


class _Plan:
    """An assignment in the making, in numbers instead of ids."""

    def __init__(
        self, members: Mapping[str, MemberSubscription], partition_counts: Mapping[Uuid, int]
    ) -> None:
        self.members = members
        self.sizes = [0] * len(members)
        """Member -> how many partitions it has."""
        self.is_changed = [False] * len(members)
        # Members mostly share their subscriptions, which are long; each is looked at once.
        distinct: dict[int, tuple[tuple[Uuid, ...], list[int]]] = {}
        for member, subscription in enumerate(members.values()):
            distinct.setdefault(id(subscription.topic_ids), (subscription.topic_ids, []))[1].append(
                member
            )
        topic_ids = dict.fromkeys(topic_id for ids, _ in distinct.values() for topic_id in ids)
        self.topic_ids = sorted(topic_ids, key=topic_order)
        numbers = {topic_id: number for number, topic_id in enumerate(self.topic_ids)}
        self.subscriptions = {
            key: {topic_id: numbers[topic_id] for topic_id in ids}
            for key, (ids, _) in distinct.items()
        }
        """Identity of a subscription -> its topics with their numbers."""
        self.subscribers = self._merged([group for _, group in distinct.values()])
        """Topic -> its subscribers, ascending; one list for topics with the same ones."""
        self.moves = 0
        """How often a partition was assigned."""
        self.level_since: dict[int, int] = {}
        """Identity of a list of subscribers -> `moves` when their loads were last found equal."""
        self.owners = [[NO_MEMBER] * partition_counts[topic_id] for topic_id in self.topic_ids]
        """Topic -> partition -> member."""

    def _merged(self, groups: list[list[int]]) -> list[list[int]]:
        """The members of all subscriptions with each topic.

        groups  the members with each subscription
        """
        groups_of: list[list[int]] = [[] for _ in self.topic_ids]
        for group, topics in enumerate(self.subscriptions.values()):
            for topic in topics.values():
                groups_of[topic].append(group)
        merged: dict[tuple[int, ...], list[int]] = {}
        subscribers = []
        for of_topic in map(tuple, groups_of):
            members = merged.get(of_topic)
            if members is None:
                members = merged[of_topic] = sorted(
                    chain.from_iterable(groups[group] for group in of_topic)
                )
            subscribers.append(members)
        return subscribers

    def keep(self) -> None:
        """Take over what members have and are still subscribed to."""
        for member, subscription in enumerate(self.members.values()):
            subscribed = self.subscriptions[id(subscription.topic_ids)]
            for topic_id, partitions in subscription.assignment.items():
                topic = subscribed.get(topic_id)
                if topic is None:
                    self.is_changed[member] = True
                    continue
                self.sizes[member] += len(partitions)
                owners = self.owners[topic]
                for partition in partitions:
                    owners[partition] = member

    def _hardest_first(self, topics: list[int]) -> list[int]:
        """Topics by partitions per subscriber, then by how few subscribers there are to choose."""

        def rank(topic: int) -> tuple[float, int, int]:
            subscriber_count = len(self.subscribers[topic])
            return -len(self.owners[topic]) / subscriber_count, subscriber_count, topic

        return sorted(topics, key=rank)

    def _give(self, topic: int, partition: int, member: int) -> None:
        previous = self.owners[topic][partition]
        if previous != NO_MEMBER:
            self.sizes[previous] -= 1
            self.is_changed[previous] = True
        self.owners[topic][partition] = member
        self.sizes[member] += 1
        self.is_changed[member] = True
        self.moves += 1

    def assign_free(self) -> None:
        """Assign partitions without an owner to the least loaded subscribers."""
        with_free = [topic for topic, owners in enumerate(self.owners) if NO_MEMBER in owners]
        for topic in self._hardest_first(with_free):
            scale = _Scale(self.subscribers[topic], self.sizes)
            for partition, owner in enumerate(self.owners[topic]):
                if owner == NO_MEMBER:
                    self._give(topic, partition, scale.take_least_loaded())

    def balance(self) -> None:
        """Move partitions until a whole pass over the topics moves none."""
        topics = self._hardest_first(
            [topic for topic, subscribers in enumerate(self.subscribers) if len(subscribers) > 1]
        )
        quiet_since: int | None = None
        for _ in range(PASSES_MAX):
            for topic in topics:
                if topic == quiet_since:
                    return
                if self._balance_topic(topic) or quiet_since is None:
                    quiet_since = topic

    def _balance_topic(self, topic: int) -> bool:
        """Whether partitions of the topic have moved."""
        subscribers = self.subscribers[topic]
        if self.level_since.get(id(subscribers)) == self.moves:
            return False
        loads = [self.sizes[member] for member in subscribers]
        if max(loads) - min(loads) <= 1:
            self.level_since[id(subscribers)] = self.moves
            return False
        scale = _Scale(subscribers, self.sizes)
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic]):
            held.setdefault(owner, []).append(partition)
        has_moved = False
        while not scale.is_level():
            giver = scale.take_most_loaded()
            while giver is not None and not held.get(giver):
                scale.exclude_most_loaded()
                giver = scale.take_most_loaded()
            if giver is None:
                break
            partition = held[giver].pop()
            taker = scale.take_least_loaded()
            # Taking has moved the levels: they may have met.
            if scale.is_level():
                break
            self._give(topic, partition, taker)
            has_moved = True
        return has_moved

    def assignments(self) -> dict[str, Assignment]:
        """The result in the terms of the question."""
        made: list[dict[Uuid, tuple[int, ...]]] = [{} for _ in self.members]
        for topic, topic_id in enumerate(self.topic_ids):
            held: dict[int, list[int]] = {}
            for partition, owner in enumerate(self.owners[topic]):
                held.setdefault(owner, []).append(partition)
            for owner, partitions in held.items():
                if self.is_changed[owner]:
                    made[owner][topic_id] = tuple(partitions)
        return {
            member_id: made[member] or NOTHING
            if self.is_changed[member]
            else subscription.assignment
            for member, (member_id, subscription) in enumerate(self.members.items())
        }


class _Scale:
    """A topic's subscribers by load, with a run of the least and a run of the most loaded ones.

    All members of a run start with as many partitions.  Members are taken from a run in turn; when
    all of it has had its turn, its level moves by one, and the run grows by the neighbours that
    have exactly that level.

    sizes  member -> how many partitions it has; the caller changes it while it takes
    """

    def __init__(self, subscribers: list[int], sizes: list[int]) -> None:
        self.sizes = sizes
        self.members = sorted(subscribers, key=sizes.__getitem__)
        count = len(self.members)
        self.low_end = 0
        """Exclusive end of the run of the least loaded, which starts at 0."""
        self.low_level = sizes[self.members[0]] - 1
        self.low_next = 0
        self.high_start = count
        self.high_end = count
        """Exclusive end of the run of the most loaded; beyond it are those with nothing to give."""
        self.high_level = sizes[self.members[-1]] + 1
        self.high_next = count - 1

    def is_level(self) -> bool:
        """Whether the runs are so near that moving a partition would not help."""
        return self.high_level - self.low_level <= 1

    def take_least_loaded(self) -> int:
        """The member that gets the next partition."""
        if self.low_next >= self.low_end:
            self.low_level += 1
            while (
                self.low_end < len(self.members)
                and self.sizes[self.members[self.low_end]] == self.low_level
            ):
                self.low_end += 1
            self.low_next = 0
        member = self.members[self.low_next]
        self.low_next += 1
        return member

    def take_most_loaded(self) -> int | None:
        """The member that gives the next partition; None when no member has any to give."""
        if self.high_next < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:
                # Everybody of the run was excluded: go on with the next one, however far down.
                self.high_level = self.sizes[self.members[self.high_start - 1]]
            else:
                self.high_level -= 1
            while (
                self.high_start > 0
                and self.sizes[self.members[self.high_start - 1]] == self.high_level
            ):
                self.high_start -= 1
            self.high_next = self.high_end - 1
        if self.high_next < 0:
            return None
        member = self.members[self.high_next]
        self.high_next -= 1
        return member

    def exclude_most_loaded(self) -> None:
        """The member that was taken last as the most loaded has nothing to give."""
        taken, last = self.high_next + 1, self.high_end - 1
        self.members[taken], self.members[last] = self.members[last], self.members[taken]
        self.high_end -= 1
