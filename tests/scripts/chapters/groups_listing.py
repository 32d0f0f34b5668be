"""FindCoordinator, ListGroups, DescribeGroups, DeleteGroups, and the names of groups."""

from __future__ import annotations

from typing import Final

from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from tests.scripts.chapters.groups_members import (
    Member,
    describe,
    stable,
    wait_for,
    wait_for_coordinator,
)
from tests.scripts.chapters.groups_offsets import commit, delete, fetch
from tests.scripts.chapters.groups_stored import stored
from tests.scripts.talk import Talk, versions_of

TOPIC: Final = "groups-listing"
NAMES: Final = {
    "an empty name": "",
    "a blank": " ",
    "a long name": "n" * 32_767,
    "a name of bytes": "\u00e4\u4e2d\U0001d11e",
    "control characters": "a\x00b\nc\x7f",
    "punctuation": "../a/b:c|d,e",
    "a name with a negative hash": "polygenelubricants",
}
STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


def play(talk: Talk) -> None:
    """The first chapter of its broker: there are no other groups yet."""
    wait_for_coordinator(talk)
    talk.make_topic(TOPIC)
    coordinators(talk)
    for version in versions_of(ListGroupsRequest):
        talk.ask("no groups", ListGroupsRequest(), version)
    in_every_state(talk)
    deletions(talk)
    for label, name in NAMES.items():
        named(talk, label, name)
    talk.ask("all names", ListGroupsRequest(), 5)
    stored(talk, "list-left", "list-offsets", *(name for name in NAMES.values() if len(name) < 99))


def coordinators(talk: Talk) -> None:
    """Of groups, in every version."""
    for version in versions_of(FindCoordinatorRequest):
        for label, name in NAMES.items():
            request = FindCoordinatorRequest(key=name, coordinator_keys=[name])
            talk.ask(f"the coordinator of {label}", request, version)
        if version >= 4:
            twice = FindCoordinatorRequest(coordinator_keys=["a", "b", "a"])
            talk.ask("coordinators, one twice", twice, version)
            talk.ask("no coordinators", FindCoordinatorRequest(coordinator_keys=[]), version)


def in_every_state(talk: Talk) -> None:
    """One group in each state, seen by every version."""
    members = {state: Member(talk, f"list-{state}", "A") for state in STATES[1:4]}
    others = Member(talk, "list-PreparingRebalance", "B")
    waiting = members["PreparingRebalance"]
    stable(talk, members["Stable"])
    stable(talk, waiting)
    others.obtain_id()
    others.send(others.join())
    wait_for(talk, waiting.group, "PreparingRebalance", 2)
    completing = members["CompletingRebalance"]
    completing.obtain_id()
    completing.quiet(completing.join())
    connect = Member(talk, "list-connect", "A", protocol_type="connect", protocols=(("v0", b""),))
    stable(talk, connect)
    left = Member(talk, "list-left", "A")
    stable(talk, left)
    left.quiet(left.leave())
    talk.quiet(commit("list-offsets", ((TOPIC, 0), 1)), 9)
    given = Member(talk, "list-given", "A")
    given.obtain_id()
    listings(talk)
    names = [f"list-{name}" for name in (*STATES, "connect", "left", "offsets", "given")]
    for version in versions_of(DescribeGroupsRequest):
        talk.ask("all that are listed", DescribeGroupsRequest(groups=names), version)
        talk.ask("nothing to describe", DescribeGroupsRequest(groups=[]), version)
        twice = DescribeGroupsRequest(groups=["list-left", "list-left", "unknown", ""])
        talk.ask("one twice, unknown and empty ones", twice, version)
        if version >= 3:
            request = DescribeGroupsRequest(
                groups=["list-Stable", "unknown"], include_authorized_operations=True
            )
            talk.ask("with operations", request, version)


def listings(talk: Talk) -> None:
    """By state and by type."""
    for version in versions_of(ListGroupsRequest):
        talk.ask("all groups", ListGroupsRequest(), version)
        if version < 4:
            continue
        for state in (*STATES, "stable", "EMPTY", "Unknown", "", "Assigning", "Reconciling"):
            request = ListGroupsRequest(states_filter=[state])
            talk.ask(f"groups that are {state!r}", request, version)
        request = ListGroupsRequest(states_filter=["Empty", "Stable", "nonsense"])
        talk.ask("groups that are one of several", request, version)
    for kind in ("classic", "Classic", "consumer", "CLASSIC", "share", "unknown", "", "nonsense"):
        talk.ask(f"groups of type {kind!r}", ListGroupsRequest(types_filter=[kind]), 5)
    both = ListGroupsRequest(types_filter=["consumer", "classic"], states_filter=["Empty"])
    talk.ask("groups of types in a state", both, 5)


def deletions(talk: Talk) -> None:
    """DeleteGroups: only empty ones go."""
    for version in versions_of(DeleteGroupsRequest):
        talk.quiet(commit(f"gone-{version}", ((TOPIC, 0), 1)), 9)
        for label, groups in (
            ("nothing", []),
            ("unknown ones", ["unknown", ""]),
            ("those with members", [f"list-{state}" for state in STATES[1:4]]),
            ("one with offsets", [f"gone-{version}"]),
            ("it again", [f"gone-{version}"]),
        ):
            talk.ask(f"delete {label}", DeleteGroupsRequest(groups_names=groups), version)
        describe(talk, f"gone-{version} is deleted", f"gone-{version}")
        talk.ask(f"offsets of gone-{version}", fetch(9, f"gone-{version}", None), 9)
    request = DeleteGroupsRequest(groups_names=["list-left", "list-left", "list-offsets"])
    talk.ask("delete one twice", request, 2)
    request = DeleteGroupsRequest(groups_names=["list-given"])
    talk.ask("delete one that waits for an id", request, 2)
    talk.ask("what is left of them", ListGroupsRequest(), 5)


def named(talk: Talk, label: str, name: str) -> None:
    """A group of any name that a string can hold."""
    talk.ask(f"{label} commits", commit(name, ((TOPIC, 0), 1)), 9)
    talk.ask(f"{label} fetches", fetch(9, name, None), 9)
    describe(talk, f"{label} is described", name)
    member = Member(talk, name, f"one with {label}", version=3)
    for version in (3, 9):
        member.version = version
        talk.ask(f"{label} joins", member.join(), version)
    talk.ask(f"{label} deletes offsets", delete(name, (TOPIC, 0)), 0)
    talk.ask(f"{label} is deleted", DeleteGroupsRequest(groups_names=[name]), 2)
