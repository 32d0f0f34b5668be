"""One group from its first member to its last, in every version; then every refusal."""

from __future__ import annotations

from typing import Any, Final

from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from tests.scripts.chapters.groups_members import (
    CHANGED,
    OF_TODAY,
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
from tests.scripts.talk import Talk, versions_of

TOPIC: Final = "groups-joining"
REFUSING: Final = (0, 1, 4, 5, 7, 9)
"""Versions of JoinGroup in which refusals look different."""


def play(talk: Talk) -> None:
    """The story in every version, the refusals in some."""
    wait_for_coordinator(talk)
    talk.make_topic(TOPIC)
    for version in versions_of(JoinGroupRequest):
        story(talk, version)
    for version in REFUSING:
        refused_joins(talk, version)
        refused_requests(talk, version)
    departures(talk)
    unreadable_subscriptions(talk)
    too_large(talk)
    stored(talk, f"joining-{OF_TODAY}", "joining-0")


def story(talk: Talk, version: int) -> None:
    """Two members come and go; every request in every state on the way."""
    group = f"joining-{version}"
    one = Member(talk, group, "A", version=version)
    two = Member(talk, group, "B", version=version)
    first_member(talk, one)
    second_member(talk, one, two)
    two.ask("B leaves", two.leave())
    one.ask("A heartbeats after B has left", one.heartbeat())
    one.ask("A joins alone", one.join())
    one.ask("A leaves before it is assigned", one.leave())
    describe(talk, f"everybody has left {group}", group)
    one.ask("A heartbeats after it has left", one.heartbeat())
    one.ask("A joins after it has left", one.join())
    one.ask("A syncs after it has left", one.sync())
    one.ask("A commits after it has left", one.commit(TOPIC, 5))
    one.ask("A leaves again", one.leave())
    one.ask(
        "a commit without a member into the empty group", one.commit(TOPIC, 6, **WITHOUT_MEMBER)
    )
    three = Member(talk, group, "C", version=version)
    three.obtain_id()
    three.ask("C joins the empty group", three.join())


WITHOUT_MEMBER: Final = {
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
}


def first_member(talk: Talk, one: Member) -> None:
    """Empty, CompletingRebalance, Stable, and the way back."""
    group = one.group
    describe(talk, f"before {group}", group)
    one.ask("A joins without an id", one.join())
    describe(talk, f"A has an id of {group}", group)
    if one.version >= 4:
        one.ask("A joins", one.join())
    describe(talk, f"A is not assigned in {group}", group)
    one.ask("A heartbeats before it is assigned", one.heartbeat())
    one.ask("A commits before it is assigned", one.commit(TOPIC, 1))
    one.ask("A joins again before it is assigned", one.join())
    one.ask("A syncs", one.sync((one, b"everything")))
    describe(talk, f"A is assigned in {group}", group)
    one.ask("A syncs again", one.sync((one, b"something else")))
    one.ask("A heartbeats", one.heartbeat())
    one.ask("A commits", one.commit(TOPIC, 2))
    one.ask("a commit without a member", one.commit(TOPIC, 3, **WITHOUT_MEMBER))
    one.ask("A joins again", one.join())
    one.ask("A syncs without an assignment", one.sync())


def second_member(talk: Talk, one: Member, two: Member) -> None:
    """PreparingRebalance, with everything that may be asked in it."""
    group = one.group
    two.obtain_id()
    two.send(two.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    describe(talk, f"B joins {group}", group)
    one.ask("A heartbeats while B joins", one.heartbeat())
    one.ask("A syncs while B joins", one.sync())
    one.ask("A commits while B joins", one.commit(TOPIC, 4))
    one.send(one.join())
    collect("A joins while B joins", one, two)
    two.send(two.sync())
    one.send(one.sync((two, b"of B"), (one, b"of A")))
    collect("both sync", one, two)
    describe(talk, f"A and B are assigned in {group}", group)
    two.ask("B joins again as it was", two.join())
    two.ask("B heartbeats", two.heartbeat())
    two.protocols = CHANGED
    two.send(two.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    one.send(one.join())
    collect("B has changed", one, two)
    one.send(one.sync((one, b"of A")))
    collect("B is forgotten", one)
    two.ask("B syncs after all", two.sync())


def refused_joins(talk: Talk, version: int) -> None:
    """What is wrong with a JoinGroup, into groups that are there or not."""
    group = f"refusing-joins-{version}"
    one = Member(talk, group, "A", version=version)
    stable(talk, one)
    other = Member(talk, group, "X", version=version)
    for label, changes in (
        ("an empty group id", {"group_id": ""}),
        ("a session of 99 ms", {"session_timeout_ms": 99}),
        ("a session of -1 ms", {"session_timeout_ms": -1}),
        ("a session that is too long", {"session_timeout_ms": 1_800_001}),
        ("an unknown id", {"member_id": UNKNOWN_ID}),
        ("an unknown id of an unknown group", {"group_id": "never", "member_id": UNKNOWN_ID}),
        ("no protocols", {"protocols": []}),
        ("no protocols, unknown group", {"group_id": f"{group}-a", "protocols": []}),
        ("no protocol type", {"protocol_type": ""}),
        ("no protocol type, unknown group", {"group_id": f"{group}-b", "protocol_type": ""}),
        ("another protocol type", {"protocol_type": "connect"}),
        ("another protocol", {"protocols": _only("other")}),
        (
            "an unknown id and another protocol",
            {"member_id": UNKNOWN_ID, "protocols": _only("other")},
        ),
        ("everything is wrong", {"group_id": "", "session_timeout_ms": 1, "protocols": []}),
        ("no group id, bad session", {"group_id": "", "session_timeout_ms": 1}),
    ):
        other.ask(f"join with {label}", other.join(**changes))
        other.member_id = ""
    describe(talk, f"after refusals of {group}", group, f"{group}-a", f"{group}-b", "never")
    one.ask("A changes its protocol", one.join(protocols=_only("other")))
    one.ask("A is of another type now", one.join(protocol_type="connect"))
    long = Member(talk, f"{group}-long", "L", version=version, session_timeout_ms=1_800_000)
    long.ask("the longest session", long.join())


def _only(name: str) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=b"")]


def refused_requests(talk: Talk, version: int) -> None:
    """What is wrong with the other requests of a member."""
    group = f"refusing-{version}"
    one = Member(talk, group, "A", version=version)
    stable(talk, one)
    wrong: dict[str, dict[str, Any]] = {
        "an empty group id": {"group_id": ""},
        "an unknown group": {"group_id": "never"},
        "an unknown id": {"member_id": UNKNOWN_ID},
        "an empty id": {"member_id": ""},
        "an unknown instance": {"group_instance_id": "nowhere"},
    }
    generations = {
        "a generation of the future": 9,
        "a generation of the past": 0,
        "generation -1": -1,
    }
    for label, changes in wrong.items():
        one.ask(f"heartbeat with {label}", one.heartbeat(**changes))
        one.ask(f"sync with {label}", one.sync(**changes))
        one.ask(f"commit with {label}", one.commit(TOPIC, 7, **changes))
    for label, number in generations.items():
        one.ask(f"heartbeat with {label}", one.heartbeat(generation_id=number))
        one.ask(f"sync with {label}", one.sync(generation_id=number))
        changed = one.commit(TOPIC, 7, generation_id_or_member_epoch=number)
        one.ask(f"commit with {label}", changed)
    protocols: tuple[tuple[str, dict[str, Any]], ...] = (
        ("another protocol type", {"protocol_type": "connect"}),
        ("another protocol", {"protocol_name": "other"}),
        ("no protocol type", {"protocol_type": None}),
        ("no protocol", {"protocol_name": None}),
        ("neither", {"protocol_type": None, "protocol_name": None}),
        ("an empty protocol type", {"protocol_type": ""}),
        ("a wrong generation and protocol", {"generation_id": 9, "protocol_name": "other"}),
        ("an unknown group, no protocol", {"group_id": "never", "protocol_name": None}),
        ("an empty group, no protocol", {"group_id": "", "protocol_name": None}),
    )
    for label, changes in protocols:
        one.ask(f"sync with {label}", one.sync(**changes))
    assigned = one.sync((one, b"mine"))
    assigned.assignments[0].member_id = UNKNOWN_ID
    one.ask("sync that assigns to an unknown member", assigned)
    one.ask("A still heartbeats", one.heartbeat())


def departures(talk: Talk) -> None:
    """LeaveGroup: ids that are given out, lists, what is unknown."""
    for version in versions_of(LeaveGroupRequest):
        group = f"leaving-{version}"
        one = Member(talk, group, "A")
        stable(talk, one)
        given = Member(talk, group, "B")
        given.obtain_id()
        for label, request in (
            ("of an empty group id", leave("", (one.member_id, None))),
            ("of an unknown group", leave("never", (one.member_id, None))),
            ("of an unknown id", leave(group, (UNKNOWN_ID, None))),
            ("of an empty id", leave(group, ("", None))),
            ("of an unknown instance", leave(group, ("", "nowhere"))),
            ("of an id with an unknown instance", leave(group, (one.member_id, "nowhere"))),
            ("of an id that was given out", leave(group, (given.member_id, None))),
            ("of it again", leave(group, (given.member_id, None))),
        ):
            talk.ask(f"leave {label}", request, version)
        given.ask(f"B joins after it has left {group}", given.join())
        if version >= 3:
            talk.ask("no member leaves", LeaveGroupRequest(group_id=group, members=[]), version)
            several = leave(
                group, (UNKNOWN_ID, None), (one.member_id, None), (one.member_id, None), ("", None)
            )
            talk.ask("several leave", several, version)
            describe(talk, f"they have left {group}", group)


def unreadable_subscriptions(talk: Talk) -> None:
    """What a consumer says of itself is not for the broker to understand; Apache tries."""
    whole = subscription("subscribed")
    for label, said in (
        ("nothing", b""),
        ("half a version", b"\x00"),
        ("a version below zero", b"\xff\xff" + whole[2:]),
        ("a version of the future", b"\x00\x63" + subscription("a", version=3)[2:] + b"more"),
    ):
        member = Member(talk, f"saying {label}", "A", protocols=(("range", said),))
        member.obtain_id()
        member.ask("A joins", member.join())
    for label, protocols in (
        ("saying something else", (("range", b"as range"),)),
        ("saying half of it", (("range", whole[:9]),)),
        ("saying one protocol twice", (("range", whole), ("range", whole))),
    ):
        member = Member(talk, label, "A", protocols=protocols)
        member.obtain_id()
        member.send(member.join())
        talk.write(f"{label} is never answered", member.is_forgotten())


def too_large(talk: Talk) -> None:
    """The record of a group has to fit into a batch."""
    huge = b"x" * 2_000_000
    one = Member(talk, "large-assignment", "A")
    one.obtain_id()
    one.quiet(one.join())
    one.ask("A assigns too much", one.sync((one, huge)))
    describe(talk, "too much was assigned", one.group)
    one.ask("A heartbeats", one.heartbeat())
    one.ask("A joins again", one.join())
    one.ask("A assigns less", one.sync((one, b"less")))
    whole = subscription("subscribed")[:-8] + len(huge).to_bytes(4, "big") + huge + bytes(4)
    two = Member(talk, "large-subscription", "A", protocols=(("range", whole),))
    two.obtain_id()
    assert two.quiet(two.join()).error_code == 0, "nothing is stored yet"
    two.ask("A syncs", two.sync((two, b"mine")))
