"""A group whose members come, go, sleep and die at any time; its broker is killed now and then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.clients.filling import Filling
from tests.clients.libraries import COOPERATIVE
from tests.clients.members import Crew, Member, Membership, check_generations, places
from tests.support.broker_process import BrokerProcess

PARTITIONS = 8
MEMBERS_MIN = 2
MEMBERS_MAX = 8
STEPS = 20
STEP_S_MAX = 0.4
SESSION_MS = 1_500


class Chaos:
    """What may happen; every choice is drawn from a seed, how the members take it is not."""

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
        self._asleep: list[Member] = []
        self._random = Random(seed)
        self._broker = broker
        self._crew = crew
        self._filling = filling
        self._libraries = libraries
        self._assignor = assignor
        self._acts: tuple[Callable[[], None], ...] = (
            *(self.come, self.come, self.leave, self.die),
            *(self.fall_asleep, self.wake, self.fill, self.fill, self.kill_broker),
        )

    def step(self) -> None:
        """Something happens after a while."""
        self._crew.listen(self._random.uniform(0, STEP_S_MAX))
        self._random.choice(self._acts)()

    def come(self) -> None:
        """One more member."""
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
        if member in self._asleep:
            self._asleep.remove(member)
        return member

    def leave(self) -> None:
        """Whoever sleeps wakes up for it, and may not be a member any more."""
        member = self._taken_out()
        if member is not None:
            member.resume()
            member.say("leave")

    def die(self) -> None:
        """SIGKILL."""
        member = self._taken_out()
        if member is not None:
            member.kill()

    def fall_asleep(self) -> None:
        """SIGSTOP, for shorter or longer than a session."""
        member = self._random.choice(self.members)
        if member not in self._asleep:
            member.pause()
            self._asleep.append(member)

    def wake(self) -> None:
        """SIGCONT for the one that has slept longest."""
        if self._asleep:
            self._asleep.pop(0).resume()

    def fill(self) -> None:
        """More records."""
        self._filling.add(self._random.randint(1, 20))

    def kill_broker(self) -> None:
        """It is there again at once."""
        self._broker.kill()
        self._broker.start()

    def calm(self) -> None:
        """Everybody is awake, and the group settles."""
        for member in self._asleep:
            member.resume()
        self._filling.wait_until_shared(self._crew, self.members)


@pytest.mark.parametrize(
    ("seed", "libraries", "assignor"),
    [
        (1, ("franz-go", "sarama", "confluent-kafka"), "range"),
        (2, ("franz-go", "confluent-kafka"), COOPERATIVE),
    ],
)
def test_no_partition_has_two_owners_and_no_record_is_left_out(
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
        chaos.come()
    for _ in range(STEPS):
        chaos.step()
    chaos.calm()
    filling.add()
    filling.wait_until_committed(crowd, chaos.members)
    told = {place for membership in chaos.ever for place in places(membership.events)}
    assert told == set(filling.places())
    assert check_generations(chaos.ever)
