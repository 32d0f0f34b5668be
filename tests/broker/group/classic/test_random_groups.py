"""Random clients of one group, by seed: whatever they do and however they die, the rules hold.

After each event the group's own invariants hold (`Group.check`), the state change is one that
`NEXT_STATES` names, and no request is answered twice (`Conversation`).  Besides: the generation
never falls, each generation has one leader, only members of the current generation can commit, and
at the end no request waits.
"""

from __future__ import annotations

from random import Random

import pytest

from odradek.broker.group.classic.events import LeavingMember
from odradek.broker.group.classic.state import GroupState
from odradek.broker.group.limits import GroupLimits
from odradek.protocol.errors import ErrorCode
from tests.broker.group.classic.conversation import Conversation
from tests.broker.group.classic.transitions import NEXT_STATES, Event

STEPS = 300
SEEDS = range(150)
SETTLE_MS = 2_000_000
STORE_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
PROTOCOLS = (
    (("range", b"1"), ("sticky", b"1")),
    (("range", b"2"), ("sticky", b"2")),
    (("sticky", b"3"), ("range", b"3")),
)


class Client:
    """What a client library remembers, and what it waits for."""

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.roll: tuple[str, ...] = ()
        self.join_ticket: int | None = None
        self.sync_ticket: int | None = None


class World:
    """A group and its clients."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        delay_ms = self.random.choice([0, 3_000])
        self.talk = Conversation(
            GroupLimits(initial_delay_ms=delay_ms, members_max=self.random.choice([3, 100])),
            stores_at_once=False,
        )
        instances: list[list[str | None]] = [
            [None, None, None, None, "i", "j"],
            [None, "i"],
            ["i", "j"],
            [None],
        ]
        self.clients = [Client(instance_id) for instance_id in self.random.choice(instances)]
        self.leaders: dict[int, str] = {}

    def step(self) -> None:
        """One event."""
        generation = self.talk.group.generation
        client = self.random.choice(self.clients)
        action = self.random.choice(
            [
                *([self.join] * 5),
                *([self.sync] * 5),
                *([self.heartbeat] * 3),
                *([self.store] * 5),
                *([self.commit] * 2),
                self.leave,
                self.vanish,
                self.wait,
                self.wait,
            ]
        )
        action(client)
        self.read_responses()
        assert self.talk.group.generation >= generation, "a generation never falls"

    def join(self, client: Client) -> None:
        is_repeated = client.join_ticket is not None
        if is_repeated and self.random.random() < 0.8:
            return
        client.join_ticket = self.talk.join(
            client.member_id,
            instance_id=client.instance_id,
            is_member_id_required=self.random.random() < 0.7,
            may_skip_assignment=self.random.random() < 0.7,
            protocols=self.random.choice(PROTOCOLS),
            session_timeout_ms=self.random.choice([6_000, 30_000]),
            rebalance_timeout_ms=self.random.choice([5_000, 60_000]),
        )

    def sync(self, client: Client) -> None:
        if client.generation < 0 or client.join_ticket is not None:
            return
        shares = tuple((name, name.encode()) for name in client.roll) if client.is_leader else ()
        client.sync_ticket = self.talk.sync(
            client.member_id, client.generation, instance_id=client.instance_id, assignments=shares
        )

    def heartbeat(self, client: Client) -> None:
        if client.generation >= 0:
            self.talk.heartbeat(client.member_id, client.generation, client.instance_id)

    def commit(self, client: Client) -> None:
        if client.generation < 0:
            return
        group = self.talk.group
        error = self.talk.commit(client.member_id, client.generation, client.instance_id)
        is_current = client.member_id in group.members and client.generation == group.generation
        assert bool(error) == (not is_current or group.state is GroupState.COMPLETING)

    def store(self, _: Client) -> None:
        if self.talk.stores:
            fails = self.random.random() < 0.1
            self.talk.store(self.random.choice(STORE_ERRORS) if fails else ErrorCode.NONE)

    def leave(self, client: Client) -> None:
        if client.instance_id is not None and self.random.random() < 0.5:
            self.talk.leave(LeavingMember("", client.instance_id))
        elif client.member_id:
            self.talk.leave(LeavingMember(client.member_id, client.instance_id))

    def vanish(self, client: Client) -> None:
        self.clients[self.clients.index(client)] = Client(client.instance_id)

    def wait(self, _: Client) -> None:
        self.talk.wait(self.random.choice([10, 1_000, 5_000, 20_000]))

    def read_responses(self) -> None:
        for client in self.clients:
            if client.join_ticket in self.talk.joined:
                self.read_join(client)
            if client.sync_ticket in self.talk.synced:
                response = self.talk.synced[client.sync_ticket or 0]
                client.sync_ticket = None
                if response.error is ErrorCode.UNKNOWN_MEMBER_ID:
                    client.member_id = ""

    def read_join(self, client: Client) -> None:
        response = self.talk.joined[client.join_ticket or 0]
        client.join_ticket = None
        if response.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""
        elif not response.error:
            client.member_id = response.member_id
            client.generation = response.generation
            client.is_leader = response.leader == response.member_id
            client.roll = tuple(member.member_id for member in response.members)
            if response.members:
                name = client.instance_id or response.member_id
                assert self.leaders.setdefault(response.generation, name) == name, "one leader"

    def settle(self) -> None:
        """Everybody is gone; what waits is answered, and the group is empty."""
        for _ in range(3):
            while self.talk.stores:
                self.talk.store()
            self.talk.wait(SETTLE_MS)
        assert not self.talk.open, "no request waits for ever"
        assert self.talk.group.state is GroupState.EMPTY
        assert not self.talk.group.pending


def play(seed: int) -> World:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    return world


@pytest.mark.parametrize("block", range(5))
def test_random_clients_keep_the_invariants_and_no_request_waits_forever(block: int) -> None:
    for seed in SEEDS[block::5]:
        try:
            play(seed).settle()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_closed_group_leaves_no_request_waiting() -> None:
    for seed in SEEDS[::5]:
        world = play(seed)
        world.talk.close()
        while world.talk.stores:
            world.talk.store()
        assert not world.talk.open, f"seed {seed}"


def test_every_change_of_state_that_the_table_names_happens() -> None:
    seen: dict[tuple[Event, GroupState, GroupState], None] = {}
    for seed in SEEDS:
        world = play(seed)
        world.settle()
        seen.update(world.talk.seen)
    talk = Conversation()
    talk.stable(1, instance_id="i", session_timeout_ms=30_000)
    talk.join(instance_id="j")
    talk.settle(talk.join("m1", instance_id="i", session_timeout_ms=30_000), 3)
    talk.stores_at_once = False
    talk.join(instance_id="i", session_timeout_ms=30_000)
    talk.wait(20_000)
    assert talk.group.state is GroupState.COMPLETING, "the others expire while a return is stored"
    seen.update(talk.seen)
    named = {
        (event, before, after)
        for event, row in NEXT_STATES.items()
        for before, afters in row.items()
        for after in afters
    }
    # A dead group, and requests that only a member makes of a group that has none.
    rare = {change for change in named if GroupState.DEAD in change[1:]}
    rare |= {(event, GroupState.EMPTY, GroupState.EMPTY) for event in (Event.SYNC, Event.HEARTBEAT)}
    assert named - rare - set(seen) == set()


def test_same_seed_repeats_the_same_history() -> None:
    first, second = play(7), play(7)
    assert first.talk.joined == second.talk.joined
    assert first.talk.synced == second.talk.synced
