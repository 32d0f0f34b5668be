"""Members of both protocols that come, go, fall silent and lose responses, while topics change.

After every event: no partition is in the hands of two members; epochs never fall; memory is what
the log says (looked at now and then).  In the end, when all that are left send heartbeats, the
group is stable and every partition is assigned once.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from odradek.broker.group.classic.consumer_protocol import read_assignment
from odradek.broker.group.classic.events import Join, JoinResult, Sync
from odradek.broker.group.classic.state import ClassicGroup, GroupState
from odradek.broker.group.consumer.heartbeat import HeartbeatResult
from odradek.broker.group.consumer.state import ConsumerGroup, ConsumerState
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.stored.consumer_protocol import ConsumerProtocolAssignment
from odradek.runtime.pending import Pending
from tests.broker.group.consumer.talk import PartitionsByTopic, Talk, assignment, subscription

STEPS = 300
SETTLE_ROUNDS = 60
Partition = tuple[str, int]
OUT = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
)


def by_topic(partitions: set[Partition]) -> PartitionsByTopic:
    """As requests have it."""
    assigned: dict[str, tuple[int, ...]] = {}
    for name, partition in sorted(partitions):
        assigned[name] = (*assigned.get(name, ()), partition)
    return assigned


class NewClient:
    """A member of the new protocol as clients are: it gives up before it takes."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.instance_id = f"i{number}" if world.random.random() < 0.3 else None
        self.choose()
        self.owned: set[Partition] = set()
        self.begin()

    def choose(self) -> None:
        """Subscribe by names, or by an expression that matches the same."""
        self.topics = self.world.some_topics()
        self.is_by_regex = self.world.random.random() < 0.3

    def begin(self) -> None:
        """It knows nothing and has nothing."""
        self.member_id = f"n{self.number}-{self.world.next_number()}"
        self.epoch = 0
        self.reset()

    def reset(self) -> None:
        """It has been thrown out: it lets go of everything at once."""
        self.epoch = 0
        self.owned = set()
        self.target: set[Partition] | None = None
        self.is_full_due = True

    def step(self) -> None:
        """A heartbeat, whose response may be lost."""
        random = self.world.random
        if self.target is not None and random.random() < 0.7:
            # Its application is done with what it has to give up.
            self.owned &= self.target
            self.is_full_due = True
        if self.epoch and self.world.chance(0.05):
            self.choose()
            self.is_full_due = True
        changes: dict[str, Any] = {"instance_id": self.instance_id}
        if self.is_full_due or self.epoch == 0:
            reported = {} if self.epoch == 0 else by_topic(self.owned)
            changes |= {
                "topic_names": () if self.is_by_regex else self.topics,
                "topic_regex": "|".join(self.topics) if self.is_by_regex else "",
                "reported": reported,
                "rebalance_timeout_ms": 300_000,
            }
        response = self.world.heartbeat(self.member_id, self.epoch, **changes)
        if not isinstance(response, HeartbeatResult):
            assert response in (*OUT, ErrorCode.UNRELEASED_INSTANCE_ID), response.name
            if response is not ErrorCode.UNRELEASED_INSTANCE_ID:
                self.reset()
            return
        if self.world.chance(0.1):
            self.is_full_due = True
            return
        self.is_full_due = False
        assert response.epoch >= self.epoch, "epochs never fall"
        self.epoch = response.epoch
        assigned = self.world.talk.names(response)
        if assigned is not None:
            self.target = {(name, index) for name, indexes in assigned.items() for index in indexes}
        if self.target is not None and self.owned <= self.target:
            # Nothing is to be given up: the rest is taken.
            if self.owned != self.target:
                self.is_full_due = True
            self.owned = set(self.target)

    def leave(self) -> None:
        """It goes, or goes for a while if it is static."""
        self.owned = set()
        epoch = -2 if self.instance_id is not None and self.world.random.random() < 0.5 else -1
        response = self.world.heartbeat(self.member_id, epoch, instance_id=self.instance_id)
        assert isinstance(response, HeartbeatResult) or response in OUT
        self.begin()


class OldClient:
    """An eager member of the classic protocol: it gives up everything before it joins."""

    instance_id = None

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.topics = world.some_topics()
        self.begin()

    def begin(self) -> None:
        """It knows nothing and has nothing."""
        self.member_id = ""
        self.owned: set[Partition] = set()
        self.generation = -1
        self.joining: Pending[JoinResult] | None = None
        self.syncing: Any = None
        self.must_join = True

    def step(self) -> None:
        """Whatever is next: join, sync, heartbeat."""
        if self.joining is not None:
            self._joined()
        elif self.syncing is not None:
            self._synced()
        elif self.must_join:
            self._join()
        else:
            error = self.world.talk.shard.heartbeat("g", self.member_id, None, self.generation)
            if error is ErrorCode.REBALANCE_IN_PROGRESS:
                self.must_join = True
            elif error:
                self._refused(error)

    def _join(self) -> None:
        self.owned = set()
        talk = self.world.talk
        event = Join(
            ticket=next(talk.tickets),
            member_id=self.member_id,
            new_member_id=f"o{self.world.next_number()}",
            instance_id=None,
            client_id="old",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=300_000,
            session_timeout_ms=45_000,
            protocol_type="consumer",
            protocols=(("range", subscription(*self.topics)),),
        )
        self.must_join = False
        self.joining = talk.shard.join("g", event)
        self._joined()

    def _joined(self) -> None:
        assert self.joining is not None
        if not self.joining.is_done:
            return
        response, self.joining = self.joining.result(), None
        if response.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.must_join = True
        elif response.error:
            self._refused(response.error)
        else:
            self.member_id, self.generation = response.member_id, response.generation
            shares: dict[str, bytes] = {}
            if response.members:
                shares = self.world.share([member.member_id for member in response.members])
            talk = self.world.talk
            self.syncing = talk.shard.sync("g", sync_event(talk, self, shares))
            self._synced()

    def _synced(self) -> None:
        if not self.syncing.is_done:
            return
        response, self.syncing = self.syncing.result(), None
        if response.error:
            self._refused(response.error)
            return
        assigned: ConsumerProtocolAssignment = read_assignment(response.assignment)
        self.owned = {
            (partition.topic, index)
            for partition in assigned.assigned_partitions
            for index in partition.partitions
        }

    def _refused(self, error: ErrorCode) -> None:
        again = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
        assert error in (*again, *OUT), error
        if error in again:
            self.must_join = True
        else:
            self.begin()

    def leave(self) -> None:
        """It goes."""
        if self.member_id and self.joining is None:
            self.world.talk.classic_leave(self.member_id)
        self.begin()


def sync_event(talk: Talk, client: OldClient, shares: dict[str, bytes]) -> Any:
    """A SyncGroup."""
    return Sync(
        next(talk.tickets),
        client.member_id,
        None,
        client.generation,
        "consumer",
        "range",
        tuple(shares.items()),
    )


class World:
    """A group, its clients, and what becomes of them."""

    def __init__(self, seed: int, *, old: int, new: int) -> None:
        self.random = Random(seed)
        self.numbers = 0
        self.talk = Talk(assignment_interval_ms=self.random.choice((0, 500)))
        self.partitions = {"a": 3, "b": 2}
        self.clients: list[NewClient | OldClient] = [
            *(NewClient(self, number) for number in range(new)),
            *(OldClient(self, number) for number in range(old)),
        ]
        self.is_calm = False
        """No more failures, and no client changes its subscription."""
        self.epochs: dict[str, int] = {}
        self.epoch = 0

    def next_number(self) -> int:
        """For names."""
        self.numbers += 1
        return self.numbers

    def chance(self, share: float) -> bool:
        """Whether something out of the ordinary happens."""
        return not self.is_calm and self.random.random() < share

    def heartbeat(self, member_id: str, epoch: int, **changes: Any) -> HeartbeatResult | ErrorCode:
        """A heartbeat, or why it is refused."""
        try:
            return self.talk.heartbeat(member_id, epoch, **changes)
        except BrokerError as error:
            return error.code

    def some_topics(self) -> tuple[str, ...]:
        """Subscriptions, mostly the same."""
        return self.random.choice((("a", "b"), ("a", "b"), ("a",), ("a", "c")))

    def share(self, members: list[str]) -> dict[str, bytes]:
        """What a leader of the classic protocol does: one after the other."""
        shares: dict[str, set[Partition]] = {member: set() for member in members}
        everything = [
            (name, index) for name, many in self.partitions.items() for index in range(many)
        ]
        topics = {
            client.member_id: client.topics
            for client in self.clients
            if isinstance(client, OldClient)
        }
        for number, partition in enumerate(everything):
            able = [
                member for member in members if partition[0] in topics.get(member, ("a", "b", "c"))
            ]
            if able:
                shares[able[number % len(able)]].add(partition)
        return {member: assignment(by_topic(given)) for member, given in shares.items()}

    def step(self) -> None:
        """One thing happens."""
        client = self.random.choice(self.clients)
        drawn = self.random.random()
        if drawn < 0.9:
            client.step()
        elif drawn < 0.93:
            client.leave()
        elif drawn < 0.95:
            self.grow()
        elif drawn < 0.96:
            self._fall_silent(client)
        elif drawn < 0.97:
            self.talk.reload()
            for old_client in self.clients:
                if isinstance(old_client, OldClient):
                    old_client.joining = old_client.syncing = None
                    old_client.must_join = True
        else:
            self.talk.wait(self.random.randrange(600))
        self.check()

    def grow(self) -> None:
        """More partitions, or another topic."""
        name = self.random.choice(("a", "b", "c"))
        self.partitions[name] = min(self.partitions.get(name, 0) + 1, 6)
        self.talk.make_topic(name, self.partitions[name])

    def _fall_silent(self, client: NewClient | OldClient) -> None:
        """It is gone without a word; the others go on until its session ends."""
        client.begin()
        for _ in range(10):
            for other in self.clients:
                if other is not client:
                    other.step()
                    self.check()
            self.talk.wait(4_600)

    def check(self) -> None:
        """The invariants."""
        owners: dict[Partition, str] = {}
        for client in self.clients:
            for partition in sorted(client.owned):
                other = owners.setdefault(partition, client.member_id)
                assert other == client.member_id, f"{partition} belongs to two"
        group_entry = self.talk.shard.groups.get("g")
        group = None if group_entry is None else group_entry.body
        if not isinstance(group, ConsumerGroup):
            self.epochs.clear()
            self.epoch = 0
            return
        group.check()
        assert group.epoch >= self.epoch or not self.epochs
        assert group.target_epoch <= group.epoch
        for member in group.members.values():
            before = self.epochs.get(member.member_id, 0)
            assert member.member_epoch >= before or member.member_epoch in (0, -2)
        self.epoch = group.epoch
        self.epochs = {
            member.member_id: member.member_epoch
            for member in group.members.values()
            if member.member_epoch > 0
        }

    def settle(self) -> None:
        """Nothing happens any more but heartbeats."""
        self.is_calm = True
        for _ in range(SETTLE_ROUNDS):
            for client in self.clients:
                client.step()
                self.check()
            self.talk.wait(1_000)

    def expected(self) -> set[Partition]:
        """The partitions of all subscribed topics."""
        names = {name for client in self.clients for name in client.topics}
        return {
            (name, index) for name in sorted(names) for index in range(self.partitions.get(name, 0))
        }


@pytest.mark.parametrize("seed", range(4))
def test_members_of_the_new_protocol(seed: int) -> None:
    world = World(seed, old=0, new=4)
    for number in range(STEPS):
        world.step()
        if number % 25 == 0:
            world.talk.check()
    world.settle()
    world.talk.check()
    world.talk.check_compacted()
    assert world.talk.group().state is ConsumerState.STABLE
    assert set().union(*(client.owned for client in world.clients)) == world.expected()


@pytest.mark.parametrize("seed", range(4))
def test_members_of_both_protocols(seed: int) -> None:
    world = World(seed, old=2, new=2)
    for number in range(STEPS):
        world.step()
        if number % 25 == 0:
            world.talk.check()
    world.settle()
    world.talk.check()
    world.talk.check_compacted()
    assert world.talk.group().state is ConsumerState.STABLE
    assert set().union(*(client.owned for client in world.clients)) == world.expected()
    for client in [client for client in world.clients if isinstance(client, NewClient)]:
        client.leave()
        world.clients.remove(client)
    world.settle()
    group = world.talk.shard.groups["g"]
    assert isinstance(group.body, ClassicGroup), "it is downgraded"
    world.talk.check_compacted()
    assert group.body.state is GroupState.STABLE
    assert set().union(*(client.owned for client in world.clients)) == world.expected()
