"""Static members (KIP-345): they return, fence, change their minds, and are sent away by name."""

from __future__ import annotations

from typing import Final

from tests.scripts.chapters.groups_members import (
    CHANGED,
    UNKNOWN_ID,
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

TOPIC: Final = "groups-static"
VERSIONS: Final = (5, 7, 8, 9)
RANGE_OR_ROUND: Final = (("range", subscription("a")), ("roundrobin", subscription("b")))
ROUND_OR_RANGE: Final = (("roundrobin", subscription("b")), ("range", subscription("a")))
ROUND_ONLY: Final = (("roundrobin", subscription("c")),)


def play(talk: Talk) -> None:
    """Each story in a group of its own for each version."""
    wait_for_coordinator(talk)
    talk.make_topic(TOPIC)
    for version in VERSIONS:
        returns(talk, version)
        refusals(talk, version)
        returns_while_joining(talk, version)
        returns_while_syncing(talk, version)
        changed_minds(talk, version)
        alone(talk, version)
    for version in (3, 4, 5):
        departures(talk, version)
    stored(talk, "static-returns-5", "static-returns-9", "static-minds-9", "static-departures-5")


def returns(talk: Talk, version: int) -> None:
    """The follower and the leader come back without their ids, without a rebalance."""
    group = f"static-returns-{version}"
    leader = Member(talk, group, "L", version=version, instance_id="l")
    follower = Member(talk, group, "F", version=version, instance_id="f")
    stable(talk, leader, follower, label="they enter")
    describe(talk, f"two static members in {group}", group)
    back = Member(talk, group, "F2", version=version, instance_id="f")
    back.ask("the follower returns", back.join())
    back.ask("the follower syncs", back.sync())
    leader.ask("the leader heartbeats", leader.heartbeat())
    back.ask("the follower heartbeats", back.heartbeat())
    back.ask("the follower commits", back.commit(TOPIC, 1))
    fenced(follower)
    describe(talk, f"the follower is back in {group}", group)
    again = Member(talk, group, "L2", version=version, instance_id="l")
    again.ask("the leader returns", again.join())
    again.ask("the leader syncs", again.sync((again, b"other"), (back, b"other")))
    again.ask("the leader heartbeats on", again.heartbeat())
    fenced(leader)
    describe(talk, f"the leader is back in {group}", group)
    again.send(again.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    back.send(back.join())
    collect("both join with their ids", again, back)


def fenced(old: Member) -> None:
    """Every request of the member that had the instance id before is refused."""
    for label, changes in (("with its instance", {}), ("by id", {"group_instance_id": None})):
        old.ask(f"the old {old.name} heartbeats {label}", old.heartbeat(**changes))
        old.ask(f"the old {old.name} syncs {label}", old.sync(**changes))
        old.ask(f"the old {old.name} commits {label}", old.commit(TOPIC, 9, **changes))
        old.ask(f"the old {old.name} joins {label}", old.join(**changes))
    old.ask(f"the old {old.name} leaves", old.leave())


def refusals(talk: Talk, version: int) -> None:
    """Ids and instances that do not belong together."""
    group = f"static-refusals-{version}"
    member_a = Member(talk, group, "A", version=version, instance_id="a")
    member_b = Member(talk, group, "B", version=version)
    stable(talk, member_a, member_b)
    for label, changes in (
        ("an unknown instance with an unknown id", {"i": "nowhere", "m": UNKNOWN_ID}),
        ("an unknown instance with a known id", {"i": "nowhere", "m": member_b.member_id}),
        ("a known instance with an unknown id", {"i": "a", "m": UNKNOWN_ID}),
        ("a known instance with another's id", {"i": "a", "m": member_b.member_id}),
        ("an empty instance with a known id", {"i": "", "m": member_b.member_id}),
    ):
        named = {"group_instance_id": changes["i"], "member_id": changes["m"]}
        member_b.ask(f"{label} joins", member_b.join(**named))
        member_b.ask(f"{label} syncs", member_b.sync(**named))
        member_b.ask(f"{label} heartbeats", member_b.heartbeat(**named))
        member_b.ask(f"{label} commits", member_b.commit(TOPIC, 1, **named))
        who = leave(group, (changes["m"], changes["i"]))
        member_b.ask(f"{label} leaves", who)
    member_a.ask("A heartbeats without its instance", member_a.heartbeat(group_instance_id=None))
    member_a.ask("A syncs without its instance", member_a.sync(group_instance_id=None))
    late = Member(talk, group, "C", version=version, instance_id="a")
    late.ask("A returns with other protocols", late.join(protocols=[]))
    late.ask("A returns with another type", late.join(protocol_type="connect"))
    describe(talk, f"nothing happened to {group}", group)


def returns_while_joining(talk: Talk, version: int) -> None:
    """The old one still waits for the rebalance."""
    group = f"static-joining-{version}"
    leader = Member(talk, group, "L", version=version, instance_id="l")
    stable(talk, leader)
    old = Member(talk, group, "F", version=version, instance_id="f")
    old.send(old.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    new = Member(talk, group, "F2", version=version, instance_id="f")
    new.send(new.join())
    collect("the old one waited to join", old)
    leader.send(leader.join())
    collect("the leader joins", leader, new)


def returns_while_syncing(talk: Talk, version: int) -> None:
    """The old one still waits for its assignment."""
    group = f"static-syncing-{version}"
    leader = Member(talk, group, "L", version=version, instance_id="l")
    old = Member(talk, group, "F", version=version, instance_id="f")
    leader.quiet(leader.join())
    old.send(old.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    leader.send(leader.join())
    collect("they join", leader, old)
    old.send(old.sync())
    new = Member(talk, group, "F2", version=version, instance_id="f")
    settle(talk, old)
    new.send(new.join())
    collect("the old one waited to sync", old)
    describe(talk, f"a new rebalance of {group}", group)
    leader.send(leader.join())
    collect("the leader joins again", leader, new)


def settle(talk: Talk, waiting: Member) -> None:
    """Give a request that changes nothing to be seen the time to arrive."""
    assert waiting.is_forgotten(), f"{waiting.name} was answered too early"


def changed_minds(talk: Talk, version: int) -> None:
    """A return with other protocols is a rebalance if they choose another one."""
    group = f"static-minds-{version}"
    leader = Member(talk, group, "L", version=version, instance_id="l", protocols=RANGE_OR_ROUND)
    old = Member(talk, group, "F", version=version, instance_id="f", protocols=RANGE_OR_ROUND)
    stable(talk, leader, old)
    same = Member(talk, group, "F2", version=version, instance_id="f", protocols=CHANGED)
    same.ask("the same protocol is chosen, with another subscription", same.join())
    leader.ask("the leader is not disturbed", leader.heartbeat())
    describe(talk, f"another subscription in {group}", group)
    other = Member(talk, group, "F3", version=version, instance_id="f", protocols=ROUND_ONLY)
    other.ask("no protocol in common with what is left", other.join())
    leader.ask("the leader heartbeats", leader.heartbeat())
    first = Member(talk, group, "L2", version=version, instance_id="l", protocols=CHANGED)
    first.ask("the leader returns with another subscription", first.join())
    first.ask("the leader syncs", first.sync())


def alone(talk: Talk, version: int) -> None:
    """One static member, whose return can choose any protocol."""
    group = f"static-alone-{version}"
    old = Member(talk, group, "A", version=version, instance_id="a", protocols=RANGE_OR_ROUND)
    stable(talk, old)
    new = Member(talk, group, "A2", version=version, instance_id="a", protocols=ROUND_OR_RANGE)
    new.ask("it returns and likes another protocol", new.join())
    new.ask("it syncs", new.sync((new, b"all")))
    describe(talk, f"another protocol in {group}", group)
    by_id = Member(talk, group, "A3", version=version, protocols=ROUND_OR_RANGE)
    by_id.member_id = new.member_id
    by_id.generation = new.generation
    by_id.ask("its id joins without the instance", by_id.join())
    describe(talk, f"without the instance in {group}", group)


def departures(talk: Talk, version: int) -> None:
    """An administrator sends members away by the names of their instances."""
    group = f"static-departures-{version}"
    members = [Member(talk, group, name, instance_id=name.lower()) for name in "ABC"]
    stable(talk, *members)
    member_a, member_b, member_c = members
    for label, who in (
        ("by an unknown instance", [("", "nowhere")]),
        ("by instance and id", [(member_c.member_id, "c")]),
        ("by the instance again", [("", "c")]),
        ("by instance and another's id", [(member_a.member_id, "b")]),
        ("by instance and unknown id", [(UNKNOWN_ID, "b")]),
        ("several", [("", "b"), ("", "b"), ("", "nowhere"), (UNKNOWN_ID, None)]),
    ):
        talk.ask(f"{label} of {group}", leave(group, *who), version)
    describe(talk, f"A is left in {group}", group)
    member_a.ask("A heartbeats", member_a.heartbeat())
    member_b.ask("B heartbeats", member_b.heartbeat())
    member_a.ask("A joins", member_a.join())
    talk.ask(f"the last of {group}", leave(group, ("", "a")), version)
    describe(talk, f"no member is left in {group}", group)
