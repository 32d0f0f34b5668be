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
    member_a = Member(talk, group, "A", version=version)
    member_b = Member(talk, group, "B", version=version)
    first_member(talk, member_a)
    second_member(talk, member_a, member_b)
    member_b.ask("B leaves", member_b.leave())
    member_a.ask("A heartbeats after B has left", member_a.heartbeat())
    member_a.ask("A joins alone", member_a.join())
    member_a.ask("A leaves before it is assigned", member_a.leave())
    describe(talk, f"everybody has left {group}", group)
    member_a.ask("A heartbeats after it has left", member_a.heartbeat())
    member_a.ask("A joins after it has left", member_a.join())
    member_a.ask("A syncs after it has left", member_a.sync())
    member_a.ask("A commits after it has left", member_a.commit(TOPIC, 5))
    member_a.ask("A leaves again", member_a.leave())
    member_a.ask(
        "a commit without a member into the empty group",
        member_a.commit(TOPIC, 6, **WITHOUT_MEMBER),
    )
    member_c = Member(talk, group, "C", version=version)
    member_c.obtain_id()
    member_c.ask("C joins the empty group", member_c.join())


WITHOUT_MEMBER: Final = {
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
}


def first_member(talk: Talk, member_a: Member) -> None:
    """Empty, CompletingRebalance, Stable, and the way back."""
    group = member_a.group
    describe(talk, f"before {group}", group)
    member_a.ask("A joins without an id", member_a.join())
    describe(talk, f"A has an id of {group}", group)
    if member_a.version >= 4:
        member_a.ask("A joins", member_a.join())
    describe(talk, f"A is not assigned in {group}", group)
    member_a.ask("A heartbeats before it is assigned", member_a.heartbeat())
    member_a.ask("A commits before it is assigned", member_a.commit(TOPIC, 1))
    member_a.ask("A joins again before it is assigned", member_a.join())
    member_a.ask("A syncs", member_a.sync((member_a, b"everything")))
    describe(talk, f"A is assigned in {group}", group)
    member_a.ask("A syncs again", member_a.sync((member_a, b"something else")))
    member_a.ask("A heartbeats", member_a.heartbeat())
    member_a.ask("A commits", member_a.commit(TOPIC, 2))
    member_a.ask("a commit without a member", member_a.commit(TOPIC, 3, **WITHOUT_MEMBER))
    member_a.ask("A joins again", member_a.join())
    member_a.ask("A syncs without an assignment", member_a.sync())


def second_member(talk: Talk, member_a: Member, member_b: Member) -> None:
    """PreparingRebalance, with everything that may be asked in it."""
    group = member_a.group
    member_b.obtain_id()
    member_b.send(member_b.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    describe(talk, f"B joins {group}", group)
    member_a.ask("A heartbeats while B joins", member_a.heartbeat())
    member_a.ask("A syncs while B joins", member_a.sync())
    member_a.ask("A commits while B joins", member_a.commit(TOPIC, 4))
    member_a.send(member_a.join())
    collect("A joins while B joins", member_a, member_b)
    member_b.send(member_b.sync())
    member_a.send(member_a.sync((member_b, b"of B"), (member_a, b"of A")))
    collect("both sync", member_a, member_b)
    describe(talk, f"A and B are assigned in {group}", group)
    member_b.ask("B joins again as it was", member_b.join())
    member_b.ask("B heartbeats", member_b.heartbeat())
    member_b.protocols = CHANGED
    member_b.send(member_b.join())
    wait_for(talk, group, "PreparingRebalance", 2)
    member_a.send(member_a.join())
    collect("B has changed", member_a, member_b)
    member_a.send(member_a.sync((member_a, b"of A")))
    collect("B is forgotten", member_a)
    member_b.ask("B syncs after all", member_b.sync())


def refused_joins(talk: Talk, version: int) -> None:
    """What is wrong with a JoinGroup, into groups that are there or not."""
    group = f"refusing-joins-{version}"
    member_a = Member(talk, group, "A", version=version)
    stable(talk, member_a)
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
    member_a.ask("A changes its protocol", member_a.join(protocols=_only("other")))
    member_a.ask("A is of another type now", member_a.join(protocol_type="connect"))
    long = Member(talk, f"{group}-long", "L", version=version, session_timeout_ms=1_800_000)
    long.ask("the longest session", long.join())


def _only(name: str) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=b"")]


def refused_requests(talk: Talk, version: int) -> None:
    """What is wrong with the other requests of a member."""
    group = f"refusing-{version}"
    member_a = Member(talk, group, "A", version=version)
    stable(talk, member_a)
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
        member_a.ask(f"heartbeat with {label}", member_a.heartbeat(**changes))
        member_a.ask(f"sync with {label}", member_a.sync(**changes))
        member_a.ask(f"commit with {label}", member_a.commit(TOPIC, 7, **changes))
    for label, number in generations.items():
        member_a.ask(f"heartbeat with {label}", member_a.heartbeat(generation_id=number))
        member_a.ask(f"sync with {label}", member_a.sync(generation_id=number))
        changed = member_a.commit(TOPIC, 7, generation_id_or_member_epoch=number)
        member_a.ask(f"commit with {label}", changed)
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
        member_a.ask(f"sync with {label}", member_a.sync(**changes))
    assigned = member_a.sync((member_a, b"mine"))
    assigned.assignments[0].member_id = UNKNOWN_ID
    member_a.ask("sync that assigns to an unknown member", assigned)
    member_a.ask("A still heartbeats", member_a.heartbeat())


def departures(talk: Talk) -> None:
    """LeaveGroup: ids that are given out, lists, what is unknown."""
    for version in versions_of(LeaveGroupRequest):
        group = f"leaving-{version}"
        member_a = Member(talk, group, "A")
        stable(talk, member_a)
        given = Member(talk, group, "B")
        given.obtain_id()
        for label, request in (
            ("of an empty group id", leave("", (member_a.member_id, None))),
            ("of an unknown group", leave("never", (member_a.member_id, None))),
            ("of an unknown id", leave(group, (UNKNOWN_ID, None))),
            ("of an empty id", leave(group, ("", None))),
            ("of an unknown instance", leave(group, ("", "nowhere"))),
            ("of an id with an unknown instance", leave(group, (member_a.member_id, "nowhere"))),
            ("of an id that was given out", leave(group, (given.member_id, None))),
            ("of it again", leave(group, (given.member_id, None))),
        ):
            talk.ask(f"leave {label}", request, version)
        given.ask(f"B joins after it has left {group}", given.join())
        if version >= 3:
            talk.ask("no member leaves", LeaveGroupRequest(group_id=group, members=[]), version)
            several = leave(
                group,
                (UNKNOWN_ID, None),
                (member_a.member_id, None),
                (member_a.member_id, None),
                ("", None),
            )
            talk.ask("several leave", several, version)
            describe(talk, f"they have left {group}", group)


def unreadable_subscriptions(talk: Talk) -> None:
    """What a consumer says of itself is not for the broker to understand; Apache tries."""
    whole = subscription("subscribed")
    for label, content in (
        ("nothing", b""),
        ("half a version", b"\x00"),
        ("a version below zero", b"\xff\xff" + whole[2:]),
        ("a version of the future", b"\x00\x63" + subscription("a", version=3)[2:] + b"more"),
    ):
        member = Member(talk, f"saying {label}", "A", protocols=(("range", content),))
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
    member_a = Member(talk, "large-assignment", "A")
    member_a.obtain_id()
    member_a.quiet(member_a.join())
    member_a.ask("A assigns too much", member_a.sync((member_a, huge)))
    describe(talk, "too much was assigned", member_a.group)
    member_a.ask("A heartbeats", member_a.heartbeat())
    member_a.ask("A joins again", member_a.join())
    member_a.ask("A assigns less", member_a.sync((member_a, b"less")))
    whole = subscription("subscribed")[:-8] + len(huge).to_bytes(4, "big") + huge + bytes(4)
    member_b = Member(talk, "large-subscription", "A", protocols=(("range", whole),))
    member_b.obtain_id()
    assert member_b.quiet(member_b.join()).error_code == 0, "nothing is stored yet"
    member_b.ask("A syncs", member_b.sync((member_b, b"mine")))
