"""Several members: votes, leaders, full groups, and what happens when time is up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tests.scripts.chapters.groups_members import (
    CHANGED,
    OF_TODAY,
    PATIENT_MS,
    Member,
    collect,
    describe,
    leave,
    stable,
    subscription,
    wait_for,
    wait_for_coordinator,
)
from tests.scripts.chapters.groups_stored import stored
from tests.scripts.talk import Talk

TOPIC: Final = "groups-rebalancing"
SHORT_MS: Final = 500
"""A time-out that the chapter does wait for."""
OTHER_VERSION: Final = 3
"""Of JoinGroup: a new member does not get an id first."""


def play(talk: Talk) -> None:
    """Each story in a group of its own."""
    wait_for_coordinator(talk)
    talk.make_topic(TOPIC)
    followers_end_of_sync(talk, OF_TODAY)
    leaders_end_of_sync(talk, OF_TODAY)
    timed: list[Iterator[None]] = []
    for version in (OTHER_VERSION, OF_TODAY):
        votes(talk, version)
        full_group(talk, version)
        syncs(talk, version)
        replaced_requests(talk, version)
        no_patience(talk, version)
        timed += [
            end_of_sessions(talk, version),
            silent_follower(talk, version),
            end_of_rebalances(talk, version),
            only_members_end_of_sync(talk, version),
        ]
    timed += [end_of_given_ids(talk), absent_static_member(talk), end_of_static_members(talk)]
    together(timed)
    stored(talk, f"votes-{OF_TODAY}", f"absent-leader-{OF_TODAY}", f"lost-sync-{OF_TODAY}")


def together(stories: Iterable[Iterator[None]]) -> None:
    """Play stories side by side: each yields when time shall pass in its group."""
    left = list(stories)
    while left:
        left = [story for story in left if next(story, story) is not story]


def enter(talk: Talk, leader: Member, *others: Member, label: str) -> None:
    """All join one after the other, the leader again as the last."""
    leader.obtain_id()
    leader.quiet(leader.join())
    for number, member in enumerate(others, start=2):
        member.obtain_id()
        member.send(member.join())
        wait_for(talk, member.group, "PreparingRebalance", number)
    leader.send(leader.join())
    collect(label, leader, *others)


def votes(talk: Talk, version: int) -> None:
    """The protocol that most like best among those that all know."""
    group = f"votes-{version}"

    def liking(name: str, *protocols: str) -> Member:
        protocols_of_member = tuple(
            (protocol, subscription(f"for-{protocol}")) for protocol in protocols
        )
        return Member(talk, group, name, version=version, protocols=protocols_of_member)

    member_a = liking("A", "a", "b", "c")
    member_b = liking("B", "c", "b")
    member_c = liking("C", "d", "c", "b")
    member_d = liking("D", "b", "d")
    enter(talk, member_a, member_b, label="two vote")
    for member in (member_a, member_b):
        member.protocols = (("b", subscription("for-b")), ("c", subscription("for-c")))
    enter_again(talk, member_a, member_b, label="two vote again")
    member_c.obtain_id()
    member_c.send(member_c.join())
    wait_for(talk, group, "PreparingRebalance", 3)
    member_b.protocols = tuple(reversed(member_b.protocols))
    member_b.send(member_b.join())
    member_a.send(member_a.join())
    collect("three vote", member_a, member_b, member_c)
    member_d.obtain_id()
    member_d.send(member_d.join())
    wait_for(talk, group, "PreparingRebalance", 4)
    for member in (member_c, member_b, member_a):
        member.send(member.join())
    collect("four vote", member_a, member_b, member_c, member_d)
    stranger = liking("E", "d")
    stranger.ask("a protocol that not all know", stranger.join())
    member_a.send(
        member_a.sync((member_a, b"1"), (member_b, b"2"), (member_c, b"3"), protocol_name="b")
    )
    collect("the leader assigns", member_a)
    describe(talk, f"the chosen protocol of {group}", group)


def enter_again(talk: Talk, leader: Member, *others: Member, label: str) -> None:
    """All join again with the ids that they have."""
    for member in others:
        member.send(member.join())
    wait_for(talk, leader.group, "PreparingRebalance")
    leader.send(leader.join())
    collect(label, leader, *others)


def full_group(talk: Talk, version: int) -> None:
    """group.max.size is 4."""
    group = f"full-{version}"
    members = [Member(talk, group, name, version=version) for name in "ABCD"]
    enter(talk, *members, label="four enter")
    fifth = Member(talk, group, "E", version=version)
    fifth.ask("a fifth while they sync", fifth.join())
    leader = members[0]
    leader.quiet(leader.sync((leader, b"all")))
    fifth.ask("a fifth when they are stable", fifth.join())
    static = Member(talk, group, "S", version=max(version, 5), instance_id="s")
    static.ask("a static fifth", static.join())
    leader.send(leader.join())
    wait_for(talk, group, "PreparingRebalance", 4)
    late = Member(talk, group, "F", version=version)
    if version >= 4:
        late.ask("a fifth gets an id while they join", late.join())
        talk.quiet(leave(group, (late.member_id, None)), 5)
    for member in members[1:]:
        member.send(member.join())
    collect("four are back", *members)
    describe(talk, f"the full {group}", group)


def syncs(talk: Talk, version: int) -> None:
    """Followers wait for the leader; a change meanwhile sends all of them back."""
    group = f"syncs-{version}"
    leader, follower, third = (Member(talk, group, name, version=version) for name in "ABC")
    enter(talk, leader, follower, label="two enter")
    follower.send(follower.sync())
    assert follower.is_forgotten(), "a follower waits for the leader"
    describe(talk, f"the leader has not assigned in {group}", group)
    third.obtain_id()
    third.send(third.join())
    collect("a third one enters while the follower waits", follower)
    leader.ask("the leader assigns too late", leader.sync((leader, b"1"), (follower, b"2")))
    follower.send(follower.join())
    leader.send(leader.join())
    collect("three are in", leader, follower, third)
    follower.send(follower.sync())
    third.send(third.sync())
    assert third.is_forgotten(), "a follower waits for the leader"
    follower_again = follower.sync()
    talk.ask(f"the third leaves {group}", leave(group, (third.member_id, None)), 5)
    collect("the other one waited", follower)
    follower.ask("it syncs again", follower_again)
    follower.send(follower.join())
    leader.send(leader.join())
    collect("two are left", leader, follower)
    leader.ask("the leader assigns before anybody", leader.sync((follower, b"late")))
    follower.ask("the follower comes after", follower.sync())
    leader.protocols = CHANGED
    leader.send(leader.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    talk.ask(f"the follower leaves {group}", leave(group, (follower.member_id, None)), 5)
    collect("the leader waited for it", leader)


def replaced_requests(talk: Talk, version: int) -> None:
    """The same member asks on another connection before it was answered on the first."""
    group = f"replaced-{version}"
    leader = Member(talk, group, "A", version=version)
    stable(talk, leader)
    old = Member(talk, group, "B", version=version)
    old.obtain_id()
    if version < 4:
        return
    old.send(old.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    new = Member(talk, group, "B", version=version)
    new.member_id = old.member_id
    new.send(new.join())
    talk.write(f"the first JoinGroup of {group} is forgotten", old.is_forgotten())
    leader.send(leader.join())
    collect("the second JoinGroup", leader, new)
    third = Member(talk, group, "B", version=version)
    third.member_id, third.generation = new.member_id, new.generation
    new.send(new.sync())
    assert new.is_forgotten(), "a follower waits for the leader"
    third.send(third.sync())
    talk.write(f"the first SyncGroup of {group} is forgotten", new.is_forgotten())
    leader.send(leader.sync((third, b"of B")))
    collect("the second SyncGroup", leader, third)


def end_of_sessions(talk: Talk, version: int) -> Iterator[None]:
    """A member that is silent for its session is removed."""
    group = f"session-{version}"
    member_a = Member(talk, group, "A", version=version, session_timeout_ms=SHORT_MS)
    stable(talk, member_a)
    yield
    wait_for(talk, group, "Empty", 0)
    describe(talk, f"A is silent in {group}", group)
    member_a.ask("A heartbeats after its session", member_a.heartbeat())
    member_a.ask("A joins after its session", member_a.join())
    member_a.ask("A commits after its session", member_a.commit(TOPIC, 1))


def silent_follower(talk: Talk, version: int) -> Iterator[None]:
    """The others share what it had."""
    group = f"silent-{version}"
    member_a = Member(talk, group, "A", version=version)
    member_b = Member(talk, group, "B", version=version, session_timeout_ms=SHORT_MS)
    stable(talk, member_a, member_b)
    yield
    wait_for(talk, group, "PreparingRebalance", 1)
    member_a.ask("A heartbeats when B is silent", member_a.heartbeat())
    member_a.ask("A joins when B is silent", member_a.join())


def end_of_rebalances(talk: Talk, version: int) -> Iterator[None]:
    """The leader does not join again in time: another one leads."""
    group = f"absent-leader-{version}"
    leader = Member(talk, group, "A", version=version, rebalance_timeout_ms=SHORT_MS)
    follower = Member(talk, group, "B", version=version, rebalance_timeout_ms=SHORT_MS)
    stable(talk, leader, follower)
    follower.protocols = CHANGED
    follower.send(follower.join())
    yield
    collect("B joins, A does not", follower)
    describe(talk, f"A is out of {group}", group)
    leader.ask("A heartbeats", leader.heartbeat())
    leader.ask("A syncs", leader.sync())
    leader.ask("A joins too late", leader.join())
    follower.ask("B assigns", follower.sync((follower, b"all")))


def followers_end_of_sync(talk: Talk, version: int) -> None:
    """A follower does not ask for its assignment in time."""
    group = f"lost-sync-{version}"
    leader = Member(talk, group, "A", version=version, rebalance_timeout_ms=SHORT_MS)
    follower = Member(talk, group, "B", version=version, rebalance_timeout_ms=SHORT_MS)
    enter(talk, leader, follower, label="two enter")
    leader.ask("only the leader syncs", leader.sync((leader, b"1"), (follower, b"2")))
    wait_for(talk, group, "PreparingRebalance", 1)
    follower.ask("B is out", follower.heartbeat())
    leader.ask("A heartbeats", leader.heartbeat())
    leader.rebalance_timeout_ms = PATIENT_MS
    leader.ask("A joins alone", leader.join())


def leaders_end_of_sync(talk: Talk, version: int) -> None:
    """The leader does not assign in time."""
    group = f"lost-leader-{version}"
    leader = Member(talk, group, "A", version=version, rebalance_timeout_ms=SHORT_MS)
    follower = Member(talk, group, "B", version=version, rebalance_timeout_ms=SHORT_MS)
    enter(talk, leader, follower, label="two enter")
    follower.send(follower.sync())
    collect("only the follower syncs", follower)
    leader.ask("A is out", leader.heartbeat())
    follower.rebalance_timeout_ms = PATIENT_MS
    follower.ask("B joins alone", follower.join())


def only_members_end_of_sync(talk: Talk, version: int) -> Iterator[None]:
    """No member is left."""
    group = f"lost-only-{version}"
    leader = Member(talk, group, "A", version=version, rebalance_timeout_ms=SHORT_MS)
    leader.obtain_id()
    leader.ask("A joins and never syncs", leader.join())
    yield
    wait_for(talk, group, "Empty", 0)
    describe(talk, f"no member is in {group}", group)
    leader.ask("A syncs too late", leader.sync((leader, b"1")))


def no_patience(talk: Talk, version: int) -> None:
    """Rebalance timeouts of nothing and less."""
    for timeout_ms in (0, -1):
        group = f"hasty-{timeout_ms}-{version}"
        member_a = Member(talk, group, "A", version=version, rebalance_timeout_ms=timeout_ms)
        member_a.obtain_id()
        member_a.ask("A joins", member_a.join())
        wait_for(talk, group, "Empty", 0)
        describe(talk, f"A was not fast enough in {group}", group)


def end_of_given_ids(talk: Talk) -> Iterator[None]:
    """An id that is not used; a rebalance waits for it while it may be."""
    group = "given-id"
    unused = Member(talk, group, "A", session_timeout_ms=SHORT_MS)
    unused.ask("an id is given", unused.join())
    describe(talk, "an id is given out", group)
    leader = Member(talk, f"{group}-waits", "B")
    stable(talk, leader)
    waited = Member(talk, f"{group}-waits", "C", session_timeout_ms=SHORT_MS)
    waited.obtain_id()
    leader.send(leader.join())
    yield
    collect("the rebalance waited for the id", leader)
    unused.ask("the id is used too late", unused.join())
    waited.ask("this one too", waited.join())


def end_of_static_members(talk: Talk) -> Iterator[None]:
    """A static member is bound by its session, not by the rebalance timeout."""
    group = "static-times"
    member_a = Member(talk, group, "A", instance_id="a", rebalance_timeout_ms=SHORT_MS)
    member_b = Member(
        talk,
        group,
        "B",
        instance_id="b",
        rebalance_timeout_ms=SHORT_MS,
        session_timeout_ms=3 * SHORT_MS,
    )
    stable(talk, member_a, member_b)
    member_a.rebalance_timeout_ms = PATIENT_MS
    member_b.rebalance_timeout_ms = PATIENT_MS
    member_a.send(member_a.join())
    yield
    collect("B does not join and stays until its session ends", member_a)
    describe(talk, "B is out", group)
    member_b.ask("B heartbeats", member_b.heartbeat())


def absent_static_member(talk: Talk) -> Iterator[None]:
    """It is in the next generation without having joined."""
    group = "static-absent"
    member_a = Member(talk, group, "A", instance_id="a", rebalance_timeout_ms=SHORT_MS)
    member_b = Member(talk, group, "B", instance_id="b", rebalance_timeout_ms=SHORT_MS)
    stable(talk, member_a, member_b)
    member_a.send(member_a.join())
    yield
    collect("B does not join and stays", member_a)
    describe(talk, "both are in the generation", group)
    member_a.ask("A assigns to both", member_a.sync((member_a, b"1"), (member_b, b"2")))
    member_b.ask("B has missed it", member_b.heartbeat())
    member_b.ask("B joins with its id", member_b.join())
