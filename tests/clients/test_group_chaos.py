"""A group whose members join, leave, pause and are killed at random; its broker is killed, too."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.clients.filling import Filling
from tests.clients.libraries import COOPERATIVE
from tests.clients.members import Crew, Member, Membership, check_generations, places, reads
from tests.support.broker_process import BrokerProcess

PARTITIONS = 8
MEMBERS_MIN = 2
MEMBERS_MAX = 8
STEPS = 20
STEP_S_MAX = 0.4
SESSION_MS = 1_500
LIBRARIES = ("franz-go", "sarama", "confluent-kafka")
DOWN_S = 2.0
"""Sarama by itself gives up after 1 s."""


class Chaos:
    """Random actions on a group; the seed fixes the actions, not the reactions of the members."""

    def __init__(
        self,
        seed: int,
        broker: BrokerProcess,
        crew: Crew,
        filling: Filling,
        *,
        libraries: tuple[str, ...],
        assignor: str,
    ) -> None:
        self.members: list[Member] = []
        self.ever: list[Membership] = []
        self._paused: list[Member] = []
        self._random = Random(seed)
        self._broker = broker
        self._crew = crew
        self._filling = filling
        self._libraries = libraries
        self._assignor = assignor
        self._acts: tuple[Callable[[], None], ...] = (
            *(self.join, self.join, self.leave, self.kill),
            *(self.pause, self.resume, self.fill, self.fill, self.kill_broker),
        )

    def step(self) -> None:
        """Run a random action after a random time."""
        self._crew.listen(self._random.uniform(0, STEP_S_MAX))
        self._random.choice(self._acts)()

    def join(self) -> None:
        """Start another member."""
        if len(self.members) < MEMBERS_MAX:
            member = self._crew.take(self._random.choice(self._libraries))
            filling = self._filling
            member.join(filling.topic, filling.group, self._assignor, session_ms=SESSION_MS)
            self.members.append(member)
            self.ever.append(member.now)

    def _taken_out(self) -> Member | None:
        if len(self.members) <= MEMBERS_MIN:
            return None
        member = self.members.pop(self._random.randrange(len(self.members)))
        if member in self._paused:
            self._paused.remove(member)
        return member

    def leave(self) -> None:
        """Make a member leave; a paused one is resumed first, and may have been removed."""
        member = self._taken_out()
        if member is not None:
            member.resume()
            member.leave()

    def kill(self) -> None:
        """Send SIGKILL to a member."""
        member = self._taken_out()
        if member is not None:
            member.kill()

    def pause(self) -> None:
        """Pause a member with SIGSTOP, for less or more than a session."""
        member = self._random.choice(self.members)
        if member not in self._paused:
            member.pause()
            self._paused.append(member)

    def resume(self) -> None:
        """Resume the member that was paused first."""
        if self._paused:
            self._paused.pop(0).resume()

    def fill(self) -> None:
        """Write more records."""
        self._filling.add(self._random.randint(1, 20))

    def kill_broker(self) -> None:
        """Kill the broker and start it at once."""
        self._broker.kill()
        self._broker.start()

    def calm(self) -> None:
        """Resume all members, and wait until they share the partitions."""
        for member in self._paused:
            member.resume()
        self._filling.wait_until_shared(self._crew, self.members)


@pytest.mark.parametrize(
    ("seed", "libraries", "assignor"),
    [(1, LIBRARIES, "range"), (2, ("franz-go", "confluent-kafka"), COOPERATIVE)],
)
def test_random_member_changes_leave_one_owner_per_partition_and_no_record_out(
    broker: BrokerProcess,
    crowd: Crew,
    topic: str,
    seed: int,
    libraries: tuple[str, ...],
    assignor: str,
) -> None:
    filling = Filling(broker.address, topic, PARTITIONS)
    chaos = Chaos(seed, broker, crowd, filling, libraries=libraries, assignor=assignor)
    for _ in range(MEMBERS_MIN + 1):
        chaos.join()
    for _ in range(STEPS):
        chaos.step()
    chaos.calm()
    filling.add()
    filling.wait_until_committed(crowd, chaos.members)
    read = {place for membership in chaos.ever for place in places(membership.events)}
    assert read == set(filling.places())
    assert check_generations(chaos.ever)


def test_members_that_start_while_the_broker_is_down_join_when_it_is_up(
    broker: BrokerProcess, crowd: Crew, topic: str
) -> None:
    filling = Filling(broker.address, topic, PARTITIONS)
    broker.kill()
    members = filling.start(crowd, LIBRARIES, "range", SESSION_MS)
    crowd.listen(DOWN_S)
    broker.start()
    filling.wait_until_shared(crowd, members)
    filling.add()
    filling.wait_until_committed(crowd, members)
    assert set(reads(members)) == set(filling.places())
