"""Members of a group with each library: they share, take over, are paused, leave and return.

`make campaign-clients` has the other releases of the Java client.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import pytest

from odradek.protocol.errors import ErrorCode
from tests.clients.filling import Filling, commit
from tests.clients.libraries import COOPERATIVE, GROUP_LIBRARIES
from tests.clients.members import (
    Crew,
    Event,
    Member,
    Membership,
    check_generations,
    owners,
    places,
    reads,
)
from tests.support.wire import Wire

PARTITIONS = 6
LONG_SESSION_MS = 30_000
"""Members send a heartbeat in every eighth of it, and learn then that another one has joined."""


def with_each(libraries: Iterable[str], *, campaign: Collection[str]) -> pytest.MarkDecorator:
    """A test for each library; for some of them in the campaign only."""
    return pytest.mark.parametrize(
        "library",
        [
            pytest.param(library, marks=[pytest.mark.slow] if library in campaign else [])
            for library in libraries
        ],
    )


each_library = with_each(GROUP_LIBRARIES, campaign={"java-2.8.2"})


@pytest.fixture
def filling(group_bootstrap: str, topic: str) -> Filling:
    """An empty topic."""
    return Filling(group_bootstrap, topic, PARTITIONS)


@each_library
def test_partitions_of_a_leaving_member_move_at_once(
    crew: Crew, filling: Filling, library: str
) -> None:
    remaining = filling.gather(crew, [library] * 2)
    leaving = crew.take(library)
    leaving.join(filling.topic, filling.group, session_ms=LONG_SESSION_MS)
    members = [*remaining, leaving]
    filling.wait_until_shared(crew, members)
    filling.add()
    filling.wait_until_committed(crew, members)
    crew.dismiss(leaving)
    crew.wait_until(
        lambda: owners(remaining, PARTITIONS) == [1] * PARTITIONS,
        "the others take over before its session would end",
        LONG_SESSION_MS / 1000,
    )
    filling.add()
    filling.wait_until_committed(crew, members)
    assert reads(members) == filling.places(), "every record is read once"
    assert check_generations(member.now for member in members)


@each_library
def test_partitions_of_killed_and_paused_members_move_after_the_session_timeout(
    crew: Crew, filling: Filling, group_bootstrap: str, library: str
) -> None:
    survivor, victim, sleeper = members = filling.gather(crew, [library] * 3)
    filling.add()
    filling.wait_until_committed(crew, members)
    before = sleeper.now.generation
    asleep = len(sleeper.now.events)
    sleeper.pause()
    victim.kill()
    filling.add()
    crew.wait_until(
        lambda: len(survivor.now.owned) == PARTITIONS, "the survivor has all partitions"
    )
    filling.wait_until_committed(crew, [survivor])
    assert reads(members) == filling.places(), "the survivor goes on where the others committed"

    if GROUP_LIBRARIES[library].commits_as_it_was:
        sleeper.say("commit")
        sleeper.resume()
        crew.wait_until(lambda: bool(sleeper.now.of_kind("refused")), "a stale commit is refused")
    else:
        stale = commit(
            filling.group,
            filling.topic,
            generation_id_or_member_epoch=before,
            member_id=sleeper.now.member_id,
        )
        with Wire(group_bootstrap) as wire:
            (response,) = wire.call(stale, 7).topics[0].partitions
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        sleeper.resume()
    filling.wait_until_shared(crew, [survivor, sleeper])
    assert before < sleeper.now.generation or before == -1
    filling.add()
    filling.wait_until_committed(crew, [survivor, sleeper])
    # In between it may report records that it had fetched before it learned of the rebalance.
    events = sleeper.now.events
    rejoined = next(at for at in range(asleep, len(events)) if events[at].kind == "assigned")
    awake = places(events[:asleep] + events[rejoined:])
    assert sorted(awake + reads([survivor, victim])) == filling.places(), "the commit had no effect"
    assert check_generations(member.now for member in members)


@with_each(
    (name for name, can in GROUP_LIBRARIES.items() if can.is_cooperative), campaign={"java-2.8.2"}
)
def test_cooperative_rebalance_revokes_moved_partitions_only(
    crew: Crew, filling: Filling, library: str
) -> None:
    (first,) = filling.gather(crew, [library], COOPERATIVE)
    second = crew.take(library)
    second.join(filling.topic, filling.group, COOPERATIVE)
    filling.wait_until_shared(crew, [first, second])
    filling.add()
    filling.wait_until_committed(crew, [first, second])
    moved = second.now.owned
    assert revocations(first) == [moved], "only what moves is revoked"
    crew.dismiss(second)
    crew.wait_until(lambda: owners([first], PARTITIONS) == [1] * PARTITIONS, "the first has all")
    assert revocations(first) == [moved]
    assert reads([first, second]) == filling.places()
    assert check_generations([first.now, second.now])


@each_library
def test_eager_rebalance_revokes_and_assigns_all_partitions(
    crew: Crew, filling: Filling, library: str
) -> None:
    (first,) = filling.gather(crew, [library], "roundrobin")
    second = crew.take(library)
    second.join(filling.topic, filling.group, "roundrobin")
    filling.wait_until_shared(crew, [first, second])
    assert revocations(first) == [set(range(PARTITIONS))]
    assert check_generations([first.now, second.now])


@with_each(
    (name for name, can in GROUP_LIBRARIES.items() if can.static),
    campaign={"java-2.8.2", "java-4.3.0"},
)
def test_returning_static_member_keeps_partitions_and_is_fenced_by_a_second_one(
    crew: Crew, filling: Filling, library: str
) -> None:
    group = filling.group
    first, second = crew.take(library), crew.take(library)
    first.join(filling.topic, group, instance="one")
    crew.wait_until(lambda: owners([first], PARTITIONS) == [1] * PARTITIONS, "it has all")
    # The session is long enough for a library that starts slowly.
    second.join(filling.topic, group, instance="two", session_ms=LONG_SESSION_MS)
    filling.wait_until_shared(crew, [first, second])
    noticed = len(first.now.events)
    given, generation = second.now.owned, second.now.generation
    second_life = second.now
    second.kill()
    third = crew.take(library)
    third.join(filling.topic, group, instance="two", session_ms=LONG_SESSION_MS)
    crew.wait_until(lambda: third.now.owned == given, "it has its partitions again")
    assert third.now.generation == generation
    assert len(first.now.events) == noticed, "no other member is affected"

    filling.add()
    filling.wait_until_committed(crew, [first, third])
    assert check_generations([first.now, second_life])
    assert check_generations([first.now, third.now])
    if not GROUP_LIBRARIES[library].sends_instance:
        return
    usurper = crew.take(library)
    usurper.join(filling.topic, group, instance="two", session_ms=LONG_SESSION_MS)
    crew.wait_until(lambda: usurper.now.owned == given, "the next one with this id has them")
    third.say("commit")
    crew.wait_until(lambda: any(map(is_fenced, third.now.events)), "the one before is fenced")
    filling.add()
    filling.wait_until_committed(crew, [first, usurper])
    assert first.now.generation == generation, "no other member is affected"
    assert check_generations([first.now, usurper.now])


def is_fenced(event: Event) -> bool:
    """Whether a commit or the library failed, because another member has the instance id."""
    if event.kind not in ("refused", "failed"):
        return False
    return re.search("fence|rejected this static", event.fields["error"], re.IGNORECASE) is not None


def revocations(member: Member) -> list[set[int]]:
    """The non-empty sets of revoked partitions."""
    revoked = (set(event.fields["partitions"]) for event in member.now.of_kind("revoked", "lost"))
    return [partitions for partitions in revoked if partitions]


def test_second_owner_in_one_generation_is_detected() -> None:
    def member(generation: int, owned: list[int]) -> Membership:
        return Membership("g", "t", [Event("assigned", {"owned": owned, "generation": generation})])

    assert check_generations([member(1, [0, 1]), member(2, [1]), member(2, [0])]) == 2
    with pytest.raises(AssertionError, match="partition 1 has two owners in generation 2"):
        check_generations([member(2, [0, 1]), member(1, [0]), member(2, [1])])
