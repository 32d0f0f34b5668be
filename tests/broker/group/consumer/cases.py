"""Random groups: topics, members, what they have."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import (
    Assignment,
    ConsumerMember,
    MemberState,
    MemberSubscription,
    SubscriptionType,
    TopicFacts,
    topic_order,
)
from odradek.broker.group.consumer.reconcile import Goal

REGEXES = ("a.*", "b.*", "unresolved.*")


def ordered_ids(rng: random.Random, count: int) -> list[Uuid]:
    """Topic ids that a Java hash set walks in the order of `topic_order`: each is its own hash,
    below the set's least capacity."""
    return [Uuid(int=number) for number in sorted(rng.sample(range(1, 16), count))]


def random_ids(rng: random.Random, count: int) -> list[Uuid]:
    """Topic ids as they are drawn, in the order of `topic_order`."""
    return sorted((Uuid(int=rng.getrandbits(128)) for _ in range(count)), key=topic_order)


def random_assignments(
    rng: random.Random, member_ids: Sequence[str], partition_counts: dict[Uuid, int]
) -> dict[str, Assignment]:
    """Some partitions, each with one owner; from evenly spread to all with one member."""
    favourites = rng.sample(member_ids, rng.randint(1, len(member_ids)))
    share = rng.choice((0.0, 0.5, 1.0, 1.0))
    given: dict[str, dict[Uuid, tuple[int, ...]]] = {member_id: {} for member_id in member_ids}
    for topic_id, count in partition_counts.items():
        for partition in range(count):
            if rng.random() < share:
                of_member = given[rng.choice(favourites)]
                of_member[topic_id] = (*of_member.get(topic_id, ()), partition)
    return dict(given)


@dataclass
class AssignCase:
    """A question to an assignor."""

    kind: SubscriptionType
    members: dict[str, MemberSubscription]
    partition_counts: dict[Uuid, int]


def assign_case(
    rng: random.Random,
    *,
    kind: SubscriptionType,
    has_ordered_ids: bool = True,
    members_max: int = 12,
    is_settled: bool = False,
) -> AssignCase:
    """A random group; its members have what an assignor may have given them before.

    is_settled  no member has a partition of a topic that it does not subscribe to
    """
    ids = (ordered_ids if has_ordered_ids else random_ids)(rng, rng.randint(1, 8))
    biggest = rng.choice((1, 3, 12, 40))
    counts = {topic_id: rng.randint(1, biggest) for topic_id in ids}
    member_ids = sorted(
        {
            f"{rng.choice('abcxyz')}{rng.getrandbits(40):x}"
            for _ in range(rng.randint(1, members_max))
        }
    )
    common = rng.sample(ids, rng.randint(0 if rng.random() < 0.05 else 1, len(ids)))
    assignments = random_assignments(rng, member_ids, counts)
    members = {}
    for member_id in member_ids:
        subscribed = common
        if kind is SubscriptionType.HETEROGENEOUS and rng.random() < 0.7:
            subscribed = rng.sample(ids, rng.randint(0, len(ids)))
        assignment = assignments[member_id]
        if is_settled:
            assignment = {
                topic: numbers for topic, numbers in assignment.items() if topic in subscribed
            }
        members[member_id] = MemberSubscription(
            tuple(sorted(subscribed, key=topic_order)),
            assignment,
            f"instance-{rng.getrandbits(20):x}" if rng.random() < 0.3 else None,
        )
    return AssignCase(kind, members, counts)


def chain_case(rng: random.Random) -> AssignCase:
    """Each member has a topic and shares it with the next one: evening out takes many passes, some
    times more than there may be."""
    count = rng.randint(3, 60)
    ids = random_ids(rng, count + 1)
    most = rng.choice((5, 20, 60))
    counts = {topic_id: rng.randint(max(1, most - 3), most) for topic_id in ids}
    if rng.random() < 0.5:
        rng.shuffle(ids)
    share = rng.choice((0.7, 1.0, 1.0))
    members = {
        f"m{number:02}": MemberSubscription(
            tuple(sorted(pair, key=topic_order)),
            {ids[number]: tuple(range(counts[ids[number]]))} if rng.random() < share else {},
        )
        for number, pair in enumerate(pairwise(ids))
    }
    return AssignCase(SubscriptionType.HETEROGENEOUS, members, counts)


@dataclass
class TargetCase:
    """A group whose target is to be computed, and what it was when it was written last."""

    topics: dict[str, TopicFacts]
    resolved: dict[str, tuple[str, ...]]
    written: dict[str, ConsumerMember]
    updated: ConsumerMember | None
    removed: str | None
    present: dict[str, Assignment]
    members: dict[str, ConsumerMember] = field(init=False)

    def __post_init__(self) -> None:
        self.members = dict(self.written)
        if self.updated is not None:
            self.members[self.updated.member_id] = self.updated
        if self.removed is not None:
            del self.members[self.removed]


def _topics(rng: random.Random) -> dict[str, TopicFacts]:
    ids = ordered_ids(rng, rng.randint(1, 8))
    names = rng.sample([f"{letter}{number}" for letter in "abc" for number in range(6)], len(ids))
    return {
        name: TopicFacts(topic_id, name, rng.randint(1, 9))
        for topic_id, name in zip(ids, names, strict=True)
    }


def _resolved(topics: dict[str, TopicFacts]) -> dict[str, tuple[str, ...]]:
    return {
        regex: tuple(sorted(name for name in topics if name[0] == regex[0]))
        for regex in REGEXES
        if not regex.startswith("unresolved")
    }


def _subscription(rng: random.Random, names: list[str]) -> tuple[tuple[str, ...], str | None]:
    """Names, an expression or both; a name can be that of a topic that is not there."""
    form = rng.random()
    some = tuple(
        sorted({*rng.sample(names, rng.randint(1, len(names))), *["gone"][: rng.randint(0, 1)]})
    )
    if form < 0.6:
        return some, rng.choice((None, ""))
    return ((), some)[form > 0.85], rng.choice(REGEXES)


def target_case(rng: random.Random) -> TargetCase:
    """Members with ids that a Java hash map walks in their order: single letters."""
    topics = _topics(rng)
    names = list(topics)
    letters = rng.sample("abcdefghijklm", rng.randint(2, 12))
    member_ids = sorted(letters[:-1])
    common = _subscription(rng, names)
    is_alike = rng.random() < 0.5
    written = {}
    for member_id in member_ids:
        subscribed = common if is_alike else _subscription(rng, names)
        written[member_id] = ConsumerMember(
            member_id=member_id,
            instance_id=f"i{member_id}" if rng.random() < 0.4 else None,
            subscribed_topic_names=subscribed[0],
            subscribed_topic_regex=subscribed[1],
        )
    counts = {topic.topic_id: topic.partition_count for topic in topics.values()}
    # A topic that has been deleted since.
    counts[Uuid(int=99)] = 2
    present = random_assignments(rng, member_ids, counts)
    for member_id in member_ids:
        if rng.random() < 0.2:
            del present[member_id]
    updated = removed = None
    if rng.random() < 0.6:
        subscribed = common if is_alike else _subscription(rng, names)
        replaced = rng.choice(member_ids)
        instance_id = written[replaced].instance_id
        is_return = instance_id is not None and rng.random() < 0.7
        updated = ConsumerMember(
            member_id=letters[-1] if is_return or rng.random() < 0.5 else replaced,
            instance_id=instance_id if is_return else None,
            subscribed_topic_names=subscribed[0],
            subscribed_topic_regex=subscribed[1],
        )
        removed = replaced if is_return else None
    return TargetCase(topics, _resolved(topics), written, updated, removed, present)


@dataclass
class ReconcileCase:
    """A member, and all that a step goes by."""

    topics: dict[str, TopicFacts]
    resolved: dict[str, tuple[str, ...]]
    member: ConsumerMember
    goal: Goal


def reconcile_case(rng: random.Random) -> ReconcileCase:
    """Any state, consistent or not, as long as what is assigned and what is pending differ."""
    topics = _topics(rng)
    names, regex = _subscription(rng, list(topics))
    resolved = _resolved(topics)
    subscribed = {*names, *resolved.get(regex or "", ())}
    ids = [*(topic.topic_id for topic in topics.values()), Uuid(int=99)]
    state = rng.choice((*MemberState, *list(MemberState)[:3], *list(MemberState)[:3]))
    epoch = rng.randint(1, 9)
    assigned: dict[Uuid, dict[int, int]] = {}
    pending: dict[Uuid, dict[int, int]] = {}
    target: dict[Uuid, tuple[int, ...]] = {}
    owners: dict[Uuid, dict[int, int]] = {}
    density = rng.choice((0.0, 0.2, 0.6))
    for topic_id in ids:
        for partition in range(6):
            chance = rng.random()
            if chance < density:
                assigned.setdefault(topic_id, {})[partition] = rng.randint(0, epoch)
            elif chance < density + 0.15 and state is MemberState.UNREVOKED_PARTITIONS:
                pending.setdefault(topic_id, {})[partition] = rng.randint(0, epoch)
            elif rng.random() < 0.3:
                owners.setdefault(topic_id, {})[partition] = rng.randint(1, 9)
            if rng.random() < 0.5:
                target[topic_id] = (*target.get(topic_id, ()), partition)
    for own in (assigned, pending):
        for topic_id, epochs in own.items():
            owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, epoch))
    member = ConsumerMember(
        member_id="m",
        member_epoch=epoch,
        previous_member_epoch=epoch - rng.randint(0, 1),
        state=state,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        assigned_partitions=assigned,
        partitions_pending_revocation=pending,
    )
    reported: list[tuple[Uuid, tuple[int, ...]]] | None = []
    form = rng.random()
    if form < 0.25:
        reported = None
    elif form < 0.7:
        reported = [
            (topic_id, tuple(number for number in range(6) if rng.random() < 0.5))
            for topic_id in ids
        ]
    elif form < 0.85:
        reported = [(topic_id, tuple(numbers)) for topic_id, numbers in assigned.items()]
    goal = Goal(
        target_epoch=epoch + rng.choice((0, 0, 1, 3)),
        target=target,
        subscribed_topic_ids=frozenset(
            topic.topic_id for name, topic in topics.items() if name in subscribed
        ),
        partition_epochs=owners,
        reported=reported,
        has_subscription_changed=rng.random() < 0.4,
    )
    return ReconcileCase(topics, resolved, member, goal)
