"""Members are led to their targets stepwise: safely for every order of events, and to the end."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID as Uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.group.consumer.assignors import ASSIGNORS
from odradek.broker.group.consumer.model import Assignment, ConsumerMember, MemberState, TopicFacts
from odradek.broker.group.consumer.reconcile import Goal, ReportedPartitions, reconcile
from odradek.broker.group.consumer.target import Subscriptions, plan_target
from odradek.protocol.errors import BrokerError, ErrorCode

TOPICS = {
    name: TopicFacts(Uuid(int=number), name, 2 + number)
    for number, name in enumerate("abc", start=1)
}
A, B, C = (topic.topic_id for topic in TOPICS.values())

Owned = frozenset[tuple[Uuid, int]]


def owned_by(member: ConsumerMember) -> Owned:
    """What counts as the member's: assigned, or not yet given up."""
    return frozenset(
        (topic_id, number)
        for part in (member.assigned_partitions, member.partitions_pending_revocation)
        for topic_id, numbers in part.items()
        for number in numbers
    )


def assigned_to(member: ConsumerMember) -> Owned:
    return frozenset(
        (topic_id, number)
        for topic_id, numbers in member.assigned_partitions.items()
        for number in numbers
    )


class Client:
    """A consumer: it gives up what it is no longer assigned, and only then takes what is new."""

    def __init__(self) -> None:
        self.owned: Owned = frozenset()
        self.assigned: Owned = frozenset()

    def work(self) -> None:
        """One of the two steps."""
        if self.owned - self.assigned:
            self.owned &= self.assigned
        else:
            self.owned = self.assigned

    def report(self) -> ReportedPartitions:
        topic_ids = dict.fromkeys(topic_id for topic_id, _ in self.owned)
        return [
            (
                topic_id,
                sorted(number for owned_topic, number in self.owned if owned_topic == topic_id),
            )
            for topic_id in topic_ids
        ]


class World:
    """A group, its consumers, and chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.members: dict[str, ConsumerMember] = {}
        self.clients: dict[str, Client] = {}
        self.has_changed: dict[str, bool] = {}
        self.group_epoch = 1
        self.target_epoch = 0
        self.target: dict[str, Assignment] = {}

    def subscription(self) -> tuple[str, ...]:
        return tuple(sorted(self.rng.sample(list(TOPICS), self.rng.randint(0, 3))))

    def join(self) -> None:
        member_id = f"{self.rng.getrandbits(32):08x}"
        self.members[member_id] = ConsumerMember(
            member_id=member_id, subscribed_topic_names=self.subscription()
        )
        self.clients[member_id] = Client()
        self.has_changed[member_id] = False
        self.group_epoch += 1

    def leave(self) -> None:
        """It stops at once: killed, or fenced after it fell silent."""
        if not self.members:
            return
        gone = self.rng.choice(list(self.members))
        for part in (self.members, self.clients, self.has_changed):
            del part[gone]
        self.target.pop(gone, None)
        self.group_epoch += 1

    def subscribe(self) -> None:
        if not self.members:
            return
        member_id = self.rng.choice(list(self.members))
        self.members[member_id] = replace(
            self.members[member_id], subscribed_topic_names=self.subscription()
        )
        self.has_changed[member_id] = True
        self.group_epoch += 1

    def assign(self) -> None:
        name = self.rng.choice(list(ASSIGNORS))
        self.target = plan_target(
            self.members, self.target, assignor=ASSIGNORS[name], topics=TOPICS, resolved={}
        ).assignments
        self.target_epoch = self.group_epoch

    def epochs(self) -> dict[Uuid, dict[int, int]]:
        epochs: dict[Uuid, dict[int, int]] = {}
        for member in self.members.values():
            for topic_id, number in owned_by(member):
                epochs.setdefault(topic_id, {})[number] = member.member_epoch
        return epochs

    def heartbeat(self, member_id: str, *, reports: bool) -> None:
        member, client = self.members[member_id], self.clients[member_id]
        member = reconcile(
            member,
            Goal(
                target_epoch=self.target_epoch,
                target=self.target.get(member_id, {}),
                subscribed_topic_ids=Subscriptions(TOPICS, {}).topic_ids(member),
                partition_epochs=self.epochs(),
                reported=client.report() if reports else None,
                has_subscription_changed=self.has_changed[member_id],
            ),
        )
        self.has_changed[member_id] = False
        self.members[member_id] = member
        client.assigned = assigned_to(member)

    def chance(self) -> None:
        event = self.rng.random()
        if event < 0.06:
            self.join()
        elif event < 0.09:
            self.leave()
        elif event < 0.14:
            self.subscribe()
        elif event < 0.24 and self.target_epoch < self.group_epoch:
            self.assign()
        elif self.members:
            member_id = self.rng.choice(list(self.members))
            if event < 0.5:
                self.clients[member_id].work()
            else:
                self.heartbeat(member_id, reports=self.rng.random() < 0.6)

    def check(self) -> None:
        """No partition is owned twice, neither in the books nor in the world."""
        for parts in (
            [owned_by(member) for member in self.members.values()],
            [client.owned for client in self.clients.values()],
        ):
            assert sum(map(len, parts)) == len(frozenset().union(*parts))
        for member_id, member in self.members.items():
            assigned, pending = member.assigned_partitions, member.partitions_pending_revocation
            assert all(part and list(part) == sorted(part) for part in assigned.values())
            assert all(part and list(part) == sorted(part) for part in pending.values())
            assert len(owned_by(member)) == sum(map(len, (*assigned.values(), *pending.values())))
            assert (member.state is MemberState.UNREVOKED_PARTITIONS) or not pending
            # The books know of all that the consumer owns.
            assert self.clients[member_id].owned <= owned_by(member)

    def is_settled(self) -> bool:
        return all(
            member.state is MemberState.STABLE
            and member.member_epoch == self.target_epoch
            and self.clients[member_id].owned
            == {(topic, index) for topic, part in self.target[member_id].items() for index in part}
            for member_id, member in self.members.items()
        )


@given(seed=st.integers(0, 2**32))
def test_partition_never_has_two_owners_and_all_come_to_rest(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(90):
        world.chance()
        world.check()
    world.group_epoch += 1
    world.assign()
    # What was under way ends; members are asked to give up; they have; what is free is taken.
    rounds = 0
    while not world.is_settled():
        rounds += 1
        assert rounds <= 4, "members come to rest"
        for member_id, client in world.clients.items():
            world.heartbeat(member_id, reports=True)
            world.check()
            client.work()
            client.work()
            world.check()


def goal(target: Assignment, **more: object) -> Goal:
    settings: dict[str, object] = {
        "target_epoch": 2,
        "target": target,
        "subscribed_topic_ids": (A, B, C),
        "partition_epochs": {},
        **more,
    }
    return Goal(**settings)  # type: ignore[arg-type]


def test_new_member_gets_what_is_free_and_waits_for_the_rest() -> None:
    member = ConsumerMember(member_id="m")
    after = reconcile(member, goal({A: (0, 1)}, partition_epochs={A: {1: 1}}))
    assert after.state is MemberState.UNRELEASED_PARTITIONS
    assert (after.member_epoch, after.previous_member_epoch) == (2, 0)
    assert after.assigned_partitions == {A: {0: 2}}
    later = reconcile(after, goal({A: (0, 1)}, partition_epochs={A: {0: 2}}))
    assert later.state is MemberState.STABLE
    assert later.assigned_partitions == {A: {0: 2, 1: 2}}


def test_member_stays_in_its_epoch_until_it_has_revoked() -> None:
    member = ConsumerMember(member_id="m", member_epoch=1, assigned_partitions={A: {0: 1, 1: 1}})
    asked = reconcile(member, goal({A: (1,), B: (0,)}))
    assert asked.state is MemberState.UNREVOKED_PARTITIONS
    assert asked.member_epoch == 1
    assert asked.assigned_partitions == {A: {1: 1}}
    assert asked.partitions_pending_revocation == {A: {0: 1}}
    for silent in (None, [(A, (0, 1))]):
        assert reconcile(asked, goal({A: (1,), B: (0,)}, reported=silent)) is asked
    done = reconcile(asked, goal({A: (1,), B: (0,)}, reported=[(A, (1,))]))
    assert done.state is MemberState.STABLE
    assert (done.member_epoch, done.previous_member_epoch) == (2, 1)
    assert done.assigned_partitions == {A: {1: 1}, B: {0: 2}}
    assert done.partitions_pending_revocation == {}


def test_revoked_partition_can_be_assigned_to_the_same_member_again() -> None:
    member = ConsumerMember(
        member_id="m",
        member_epoch=1,
        state=MemberState.UNREVOKED_PARTITIONS,
        partitions_pending_revocation={A: {0: 1}},
    )
    # It still counts as the owner, so the partition has an epoch.
    after = reconcile(member, goal({A: (0,)}, partition_epochs={A: {0: 1}}, reported=[]))
    assert after.assigned_partitions == {A: {0: 2}}
    assert after.state is MemberState.STABLE


def test_topics_that_are_not_subscribed_any_more_are_taken_away_within_the_epoch() -> None:
    member = ConsumerMember(
        member_id="m", member_epoch=2, assigned_partitions={A: {0: 1}, B: {0: 1}}
    )
    target = {A: (0,), B: (0,)}
    seen = goal(target, subscribed_topic_ids=(A,), has_subscription_changed=True)
    asked = reconcile(member, seen)
    assert asked.state is MemberState.UNREVOKED_PARTITIONS
    assert (asked.assigned_partitions, asked.partitions_pending_revocation) == (
        {A: {0: 1}},
        {B: {0: 1}},
    )
    at_once = reconcile(member, replace(seen, reported=[(A, (0,))]))
    assert at_once.state is MemberState.STABLE
    assert at_once.assigned_partitions == {A: {0: 1}}
    assert reconcile(member, replace(seen, has_subscription_changed=False)) is member


@pytest.mark.parametrize("reported", [None, [(A, (0,))]])
def test_member_in_an_unknown_state_starts_again(reported: ReportedPartitions | None) -> None:
    member = ConsumerMember(
        member_id="m", member_epoch=1, state=MemberState.of(55), assigned_partitions={A: {0: 1}}
    )
    with pytest.raises(BrokerError) as refused:
        reconcile(member, goal({A: (0,)}, reported=reported))
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    after = reconcile(member, goal({A: (0,)}, reported=[]))
    assert after.state is MemberState.STABLE
    assert after.member_epoch == 2
