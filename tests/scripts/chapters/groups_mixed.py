"""Groups of the new protocol: static members, expressions, offsets, and requests of the old one."""

from __future__ import annotations

from typing import Any, Final

from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.scripts.chapters.groups_consumers import LEAVE_FOR_A_WHILE, Consumer, describe
from tests.scripts.chapters.groups_members import (
    Member,
    leave,
    stable,
    subscription,
    wait_for_coordinator,
)
from tests.scripts.chapters.groups_members import describe as describe_classic
from tests.scripts.chapters.groups_offsets import commit, delete, of_group
from tests.scripts.chapters.groups_stored import NEW_KINDS, stored
from tests.scripts.talk import Talk

FOUR: Final = "mixed-four"
ONE: Final = "mixed-one"
OTHER: Final = "other-one"
READS_FOUR: Final = (("range", subscription(FOUR)),)


def play(talk: Talk) -> None:
    """Each story in a group of its own; first what shows all groups, while there are few."""
    wait_for_coordinator(talk)
    talk.make_topic(FOUR, 4)
    talk.make_topic(ONE, 1)
    talk.make_topic(OTHER, 1)
    described_and_listed(talk)
    static_members(talk)
    expressions(talk)
    commits(talk)
    fetches(talk)
    deletions(talk)
    old_requests(talk)
    new_requests(talk)


def static_members(talk: Talk) -> None:
    """They leave for a while, return under another id, and fence."""
    group = "mixed-static"
    member_a = Consumer(talk, group, "A", topics=[FOUR], instance_id="a")
    member_b = Consumer(talk, group, "B", topics=[FOUR], instance_id="b")
    member_a.ask("A enters", member_a.enter())
    member_b.ask("B enters", member_b.enter())
    member_a.ask("A gives up", member_a.heartbeat())
    member_a.ask("A has given up", member_a.report())
    member_b.ask("B gets what A gave up", member_b.heartbeat())
    member_b.ask("B reports", member_b.report())
    thief = Consumer(talk, group, "T", topics=[FOUR], instance_id="b")
    thief.ask("another member takes B's place", thief.enter())
    thief.ask(
        "another member heartbeats in B's place", thief.heartbeat(member_epoch=member_b.epoch)
    )
    member_b.ask("B with an instance that is not there", member_b.heartbeat(instance_id="c"))
    member_b.ask("B with A's instance", member_b.heartbeat(instance_id="a"))
    member_b.ask("B without its instance", member_b.heartbeat(instance_id=None))
    member_b.ask("B leaves for a while", member_b.leave(LEAVE_FOR_A_WHILE))
    describe(talk, "B is away", group)
    member_a.ask("A does not notice", member_a.heartbeat())
    member_b.ask("B heartbeats though it is away", member_b.heartbeat(member_epoch=2))
    back = Consumer(talk, group, "B2", topics=[FOUR], instance_id="b")
    back.ask("B returns under another id", back.enter())
    member_b.ask("the old B heartbeats", member_b.heartbeat(member_epoch=back.epoch))
    describe(talk, "B is back", group)
    back.ask("B leaves for a while again", back.leave(LEAVE_FOR_A_WHILE))
    changed = Consumer(talk, group, "B3", topics=[FOUR, ONE], instance_id="b")
    changed.ask("B returns with another subscription", changed.enter())
    describe(talk, "B is back with another subscription", group)
    changed.ask("B leaves for good", changed.leave())
    member_a.ask("A gets all", member_a.heartbeat())
    member_a.ask("A leaves another's instance", member_a.leave(instance_id="b"))
    member_a.ask(
        "A leaves for a while with another's instance", member_a.leave(-2, instance_id="b")
    )
    talk.ask("A is sent away by its name", leave(group, ("", "a")), 5)
    describe(talk, "no member is left", group)
    stored(talk, group, kinds=NEW_KINDS)


def expressions(talk: Talk) -> None:
    """Topics by regular expression, which the broker matches."""
    group = "mixed-regex"
    member_a = Consumer(talk, group, "A", regex="mixed-.*")
    first = member_a.quiet(member_a.enter())
    talk.write(f"{group}: A enters with an expression", first.error_code)
    member_a.until_assigned("A gets what it matches", 5)
    member_a.quiet(member_a.report())
    describe(talk, "an expression", group)
    for label, regex in (
        ("a broken one", "("),
        ("a repetition of nothing", "*"),
        ("an unknown class", r"\p{IsNothing}"),
        ("a look behind", "(?<=mixed-)four"),
    ):
        member_a.ask(f"A wants {label}", member_a.heartbeat(subscribed_topic_regex=regex))
        other = Consumer(talk, f"{group}-refused", "B", regex=regex)
        other.ask(f"B enters with {label}", other.enter())
    member_a.ask("A wants names besides", member_a.heartbeat(subscribed_topic_names=[OTHER]))
    member_a.ask("A reports names besides", member_a.report())
    describe(talk, "an expression and names", group)
    member_a.quiet(member_a.heartbeat(subscribed_topic_regex=""))
    member_a.ask("A wants no expression any more", member_a.report())
    describe(talk, "names alone", group)
    # Expressions of one group are matched again ten seconds later at the earliest.
    other = Consumer(talk, f"{group}-other", "A", topics=[OTHER], regex="mixed-o.e")
    other.quiet(other.enter())
    other.until_assigned("A wants an expression and a name", 2)
    nothing = Consumer(talk, f"{group}-nothing", "A", regex="mixed")
    nothing.quiet(nothing.enter())
    nothing.until_assigned("an expression matches whole names", 0)
    member_b = Consumer(talk, group, "B", regex="")
    member_b.ask("B enters with an empty expression", member_b.enter())
    describe(talk, "an empty expression", group)


def numbered(member: Consumer, epoch: int, **changes: Any) -> OffsetCommitRequest:
    """A commit with a member's epoch."""
    values = {"generation_id_or_member_epoch": epoch, "member_id": member.member_id, **changes}
    return commit(member.group, ((FOUR, 0), 5), **values)


def commits(talk: Talk) -> None:
    """The epoch of the member is checked, from version 9 on."""
    group = "mixed-commits"
    member_a = Consumer(talk, group, "A", topics=[FOUR])
    member_a.quiet(member_a.enter())
    member_a.quiet(member_a.heartbeat(subscribed_topic_names=[FOUR, ONE]))
    member_a.quiet(member_a.report())
    for version in (2, 8, 9):
        for label, epoch, changes in (
            ("its epoch", member_a.epoch, {}),
            ("an older epoch", member_a.epoch - 1, {}),
            ("a newer epoch", member_a.epoch + 1, {}),
            ("epoch 0", 0, {}),
            ("epoch -1", -1, {}),
            ("an unknown id", member_a.epoch, {"member_id": "unknown"}),
            ("no id", member_a.epoch, {"member_id": ""}),
            ("no id and epoch -1", -1, {"member_id": ""}),
            ("an instance", member_a.epoch, {"group_instance_id": "nowhere"}),
        ):
            request = numbered(member_a, epoch, **changes)
            talk.ask(f"commit with {label}", request, version)
    member_a.quiet(member_a.leave())
    for version in (2, 8, 9):
        for label, epoch, changes in (
            ("its epoch", 2, {}),
            ("no id and epoch -1", -1, {"member_id": ""}),
            ("no id and epoch 0", 0, {"member_id": ""}),
        ):
            request = numbered(member_a, epoch, **changes)
            talk.ask(f"commit into the empty group with {label}", request, version)


def fetches(talk: Talk) -> None:
    """Member and epoch are checked when a request has them."""
    group = "mixed-fetches"
    member_a = Consumer(talk, group, "A", topics=[FOUR])
    member_a.quiet(member_a.enter())
    talk.quiet(numbered(member_a, member_a.epoch), 9)
    for label, member_id, epoch in (
        ("its epoch", member_a.member_id, member_a.epoch),
        ("an older epoch", member_a.member_id, member_a.epoch - 1),
        ("a newer epoch", member_a.member_id, member_a.epoch + 1),
        ("epoch -1", member_a.member_id, -1),
        ("an unknown id", "unknown", member_a.epoch),
        ("an unknown id and epoch -1", "unknown", -1),
        ("no id", None, member_a.epoch),
        ("an empty id", "", member_a.epoch),
        ("an empty id and epoch -1", "", -1),
        ("neither", None, -1),
    ):
        for topics in ([(FOUR, [0, 1])], None):
            asked = of_group(group, topics)
            asked.member_id, asked.member_epoch = member_id, epoch
            what = "all" if topics is None else "two"
            talk.ask(f"fetch {what} with {label}", OffsetFetchRequest(groups=[asked]), 9)
    talk.ask("fetch in version 8", OffsetFetchRequest(groups=[of_group(group, None)]), 8)
    talk.ask("fetch in version 7", OffsetFetchRequest(group_id=group, topics=None), 7)


def described_and_listed(talk: Talk) -> None:
    """By requests of either kind."""
    talk.quiet(commit("mixed-offsets", ((FOUR, 0), 1)), 9)
    member_a = Member(talk, "mixed-classic", "A")
    stable(talk, member_a)
    alone = Consumer(talk, "mixed-new", "A", topics=[FOUR])
    alone.quiet(alone.enter())
    waiting = Consumer(talk, "mixed-new", "B", topics=[FOUR])
    names = ["mixed-new", "mixed-classic", "mixed-offsets", "never", ""]
    for number in range(3):
        for version in (0, 1):
            describe(talk, f"described {number}", *names, version=version)
        for version in (0, 5):
            describe_classic(talk, f"described {number}", *names, version=version)
        talk.ask(f"listed {number}", ListGroupsRequest(states_filter=["Reconciling"]), 5)
        if number == 0:
            waiting.quiet(waiting.enter())
        else:
            waiting.quiet(waiting.leave())
    for version in range(6):
        talk.ask("all", ListGroupsRequest(), version)
    for kind in ("consumer", "Consumer", "classic"):
        talk.ask(f"of type {kind}", ListGroupsRequest(types_filter=[kind]), 5)
    for state in ("Stable", "assigning", "Empty", "Dead", "Reconciling"):
        talk.ask(f"that are {state}", ListGroupsRequest(states_filter=[state]), 5)
    both = ListGroupsRequest(states_filter=["Empty"], types_filter=["consumer"])
    talk.ask("empty ones of the new protocol", both, 5)


def deletions(talk: Talk) -> None:
    """DeleteGroups and OffsetDelete."""
    group = "mixed-deletions"
    member_a = Consumer(talk, group, "A", topics=[FOUR])
    member_a.quiet(member_a.enter())
    offsets = commit(group, ((FOUR, 0), 1), ((ONE, 0), 2))
    offsets.generation_id_or_member_epoch, offsets.member_id = member_a.epoch, member_a.member_id
    talk.quiet(offsets, 9)
    talk.ask("delete a group with members", DeleteGroupsRequest(groups_names=[group]), 2)
    talk.ask("delete offsets", delete(group, (FOUR, 0), (ONE, 0), ("never-made", 0)), 0)
    member_a.quiet(member_a.leave())
    talk.ask("delete the others", delete(group, (FOUR, 0)), 0)
    describe(talk, "the offsets are gone", group)
    talk.ask("delete an empty group", DeleteGroupsRequest(groups_names=[group, "never"]), 2)
    describe(talk, "the group is gone", group)
    again = Consumer(talk, group, "B", topics=[FOUR])
    again.ask("B enters a group that was deleted", again.enter())


def old_requests(talk: Talk) -> None:
    """A client of the classic protocol finds a group of the new one."""
    group = "mixed-new-first"
    new = Consumer(talk, group, "A", topics=[FOUR])
    new.quiet(new.enter())
    old = Member(talk, group, "X", protocols=READS_FOUR)
    for label, request in (
        ("syncs", old.sync(member_id="unknown", generation_id=2)),
        ("heartbeats", old.heartbeat(member_id="unknown", generation_id=2)),
        ("leaves", leave(group, ("unknown", None))),
        ("heartbeats as A", old.heartbeat(member_id=new.member_id, generation_id=new.epoch)),
        ("syncs as A", old.sync(member_id=new.member_id, generation_id=new.epoch)),
        ("joins as A", old.join(member_id=new.member_id)),
        ("joins with an unknown id", old.join(member_id="unknown")),
        ("joins with another type", old.join(protocol_type="connect")),
        ("joins without protocols", old.join(protocols=[])),
        ("joins without readable protocols", _unreadable(old)),
    ):
        old.ask(label, request)
        old.member_id, old.generation = "", -1
    describe(talk, "who has entered", group)
    stranger = Member(talk, "mixed-new-left", "X")
    left = Consumer(talk, "mixed-new-left", "A", topics=[FOUR])
    left.quiet(left.enter())
    left.quiet(left.leave())
    stranger.ask("gets an id by an empty one", stranger.join())
    stranger.ask("joins an empty one", stranger.join())
    describe_classic(talk, "an empty one has changed its kind", "mixed-new-left")
    describe(talk, "it is of the new kind no more", "mixed-new-left")
    stored(talk, "mixed-new-left", kinds=NEW_KINDS)


def _unreadable(old: Member) -> Any:
    request = old.join()
    request.protocols[0].metadata = b"\x00"
    return request


def new_requests(talk: Talk) -> None:
    """A client of the new protocol finds a group of the classic one."""
    connect = Member(talk, "mixed-connect", "A", protocol_type="connect")
    stable(talk, connect)
    for group in ("mixed-connect", "mixed-classic"):
        new = Consumer(talk, group, "X", topics=[FOUR])
        for label, request in (
            ("heartbeats in a classic group", new.heartbeat(member_epoch=3)),
            ("leaves a classic group", new.leave()),
        ):
            new.ask(label, request)
    new = Consumer(talk, "mixed-connect", "X", topics=[FOUR])
    new.ask("enters a group that is none of consumers", new.enter())
    unreadable = Member(talk, "mixed-unreadable", "A", protocols=READS_FOUR)
    stable(talk, unreadable)
    new = Consumer(talk, "mixed-unreadable", "X", topics=[FOUR])
    new.ask("enters a group with an assignment that cannot be read", new.enter())
    given = Member(talk, "mixed-given", "A")
    given.obtain_id()
    new = Consumer(talk, "mixed-given", "X", topics=[FOUR])
    new.ask("enters a group where an id was given out", new.enter())
    describe(talk, "it has changed its kind", "mixed-given")
    empty = Consumer(talk, "mixed-offsets", "X", topics=[FOUR])
    empty.ask("enters a group of offsets", empty.enter())
    describe(talk, "a group of offsets", "mixed-offsets")
