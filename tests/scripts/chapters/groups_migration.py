"""Groups whose members speak both protocols, while they change from one to the other."""

from __future__ import annotations

from typing import Final

from tests.scripts.chapters.groups_consumers import LEAVE_FOR_A_WHILE, Consumer, describe
from tests.scripts.chapters.groups_members import (
    Member,
    share,
    stable,
    subscription,
    wait_for_coordinator,
)
from tests.scripts.chapters.groups_members import describe as describe_classic
from tests.scripts.chapters.groups_members import wait_for as wait_for_classic
from tests.scripts.chapters.groups_stored import NEW_KINDS, stored
from tests.scripts.talk import Talk

FOUR: Final = "migration-four"
ONE: Final = "migration-one"
READS_FOUR: Final = (("range", subscription(FOUR)),)
READS_ONE: Final = (("range", subscription(ONE)),)
ALL_FOUR: Final = (0, 1, 2, 3)


def play(talk: Talk) -> None:
    """Each story in a group of its own.

    Ids of classic members have another form here: Apache draws a whole one when a group is of the
    new protocol.
    """
    talk.masks.hides_prefixes = True
    wait_for_coordinator(talk)
    talk.make_topic(FOUR, 4)
    talk.make_topic(ONE, 1)
    upgrade(talk)
    downgrade(talk)
    old_member_enters(talk)
    static_upgrade(talk)
    static_downgrade(talk)
    upgrade_meanwhile(talk)


def upgrade(talk: Talk) -> None:
    """A group of the classic protocol is taken over with its members."""
    group = "migration-upgrade"
    old = Member(talk, group, "A", protocols=READS_FOUR)
    stable(talk, old, shares=[share(FOUR, *ALL_FOUR)])
    new = Consumer(talk, group, "B", topics=[FOUR])
    new.ask("B enters", new.enter())
    describe(talk, "A and B", group)
    describe_classic(talk, "A and B", group)
    old.ask("A heartbeats", old.heartbeat())
    old.ask("A commits", old.commit(FOUR, 1))
    old.ask("A joins", old.join())
    old.ask("A syncs", old.sync())
    describe(talk, "A has joined again", group)
    new.ask("B heartbeats", new.heartbeat())
    old.ask("A heartbeats again", old.heartbeat())
    old.ask("A joins again", old.join())
    old.ask("A syncs again", old.sync())
    new.ask("B heartbeats again", new.heartbeat())
    new.ask("B reports", new.report())
    describe(talk, "A and B have their shares", group)
    old.ask("A with a wrong generation", old.heartbeat(generation_id=99))
    old.ask("A leaves", old.leave())
    describe(talk, "B is left", group)
    new.ask("B gets all", new.heartbeat())
    stored(talk, group, kinds=NEW_KINDS)


def downgrade(talk: Talk) -> None:
    """The last member of the new protocol leaves: the group is of the classic one again."""
    group = "migration-downgrade"
    old = Member(talk, group, "A", protocols=READS_FOUR)
    stable(talk, old, shares=[share(FOUR, *ALL_FOUR)])
    new = Consumer(talk, group, "B", topics=[FOUR])
    new.quiet(new.enter())
    new.ask("B leaves", new.leave())
    describe(talk, "of the new protocol no more", group)
    wait_for_classic(talk, group, "PreparingRebalance", 1)
    describe_classic(talk, "of the classic one again", group)
    old.ask("A heartbeats", old.heartbeat())
    old.ask("A joins", old.join())
    old.ask("A syncs", old.sync((old, share(FOUR, *ALL_FOUR))))
    describe_classic(talk, "A is alone", group)
    stored(talk, group, kinds=NEW_KINDS)


def old_member_enters(talk: Talk) -> None:
    """A classic client enters a group of the new protocol, which stays one."""
    group = "migration-old"
    new = Consumer(talk, group, "A", topics=[FOUR])
    new.ask("A enters", new.enter())
    new.ask("A reports", new.report())
    old = Member(talk, group, "B", protocols=READS_FOUR)
    old.ask("B joins without an id", old.join())
    old.ask("B joins", old.join())
    describe(talk, "B has joined A", group)
    old.ask("B syncs", old.sync())
    old.ask("B heartbeats", old.heartbeat())
    new.ask("A gives up", new.heartbeat())
    old.ask("B heartbeats meanwhile", old.heartbeat())
    new.ask("A has given up", new.report())
    old.ask("B heartbeats when A has given up", old.heartbeat())
    old.ask("B joins again", old.join())
    old.ask("B syncs again", old.sync())
    describe(talk, "the classic one has its share", group)
    old.ask("B commits", old.commit(FOUR, 7))
    old.protocols = READS_ONE
    old.ask("B joins with another subscription", old.join())
    old.ask("B syncs with another subscription", old.sync())
    describe(talk, "B reads something else", group)
    new.ask("A leaves", new.leave())
    wait_for_classic(talk, group, "PreparingRebalance", 1)
    describe_classic(talk, "B is left", group)
    old.ask("B joins as before", old.join())
    stored(talk, group, kinds=NEW_KINDS)


def static_upgrade(talk: Talk) -> None:
    """Static members change their protocol one after the other, and keep what they have."""
    group = "migration-static"
    old = [
        Member(talk, group, name, instance_id=name.lower(), protocols=READS_FOUR) for name in "AB"
    ]
    stable(talk, *old, shares=[share(FOUR, 0, 1), share(FOUR, 2, 3)])
    member_a = Consumer(talk, group, "A2", topics=[FOUR], instance_id="a")
    member_a.ask("A returns with the new protocol", member_a.enter())
    describe(talk, "one has changed", group)
    old[0].ask("the old A heartbeats", old[0].heartbeat())
    old[1].ask("B heartbeats", old[1].heartbeat())
    old[1].ask("B joins", old[1].join())
    old[1].ask("B syncs", old[1].sync())
    member_a.ask("A heartbeats", member_a.heartbeat())
    member_a.ask("A reports", member_a.report())
    member_b = Consumer(talk, group, "B2", topics=[FOUR], instance_id="b")
    member_b.ask("B returns with the new protocol", member_b.enter())
    describe(talk, "both have changed", group)
    old[1].ask("the old B heartbeats", old[1].heartbeat())
    stored(talk, group, kinds=NEW_KINDS)


def static_downgrade(talk: Talk) -> None:
    """The way back."""
    group = "migration-static-back"
    new = [Consumer(talk, group, name, topics=[FOUR], instance_id=name.lower()) for name in "AB"]
    new[0].quiet(new[0].enter())
    new[1].quiet(new[1].enter())
    new[0].quiet(new[0].heartbeat())
    new[0].quiet(new[0].report())
    new[1].quiet(new[1].heartbeat())
    new[0].ask("A leaves for a while", new[0].leave(LEAVE_FOR_A_WHILE))
    member_a = Member(talk, group, "A2", instance_id="a", protocols=READS_FOUR)
    member_a.ask("A returns with the classic protocol", member_a.join())
    member_a.ask("A syncs", member_a.sync())
    describe(talk, "one has changed back", group)
    member_b = Member(talk, group, "B2", instance_id="b", protocols=READS_FOUR)
    member_b.ask("B returns without having left", member_b.join())
    describe(talk, "both have changed back", group)
    describe_classic(talk, "both have changed back", group)
    new[1].ask("the old B heartbeats", new[1].heartbeat())
    stored(talk, group, kinds=NEW_KINDS)


def upgrade_meanwhile(talk: Talk) -> None:
    """A member of the new protocol enters while the classic ones rebalance.

    It reads another topic: who gets what of the same one would depend on the drawn ids.
    """
    group = "migration-rebalance"
    member_a = Member(talk, group, "A", protocols=READS_FOUR)
    member_b = Member(talk, group, "B", protocols=READS_FOUR)
    stable(talk, member_a, shares=[share(FOUR, *ALL_FOUR)])
    member_b.obtain_id()
    member_b.send(member_b.join())
    wait_for_classic(talk, group, "PreparingRebalance", 2)
    new = Consumer(talk, group, "C", topics=[ONE])
    new.ask("C enters while B joins", new.enter())
    response, _, version = member_b.receive()
    talk.write_response(f"{group}: B waited, JOIN_GROUP v{version}", response, version)
    describe(talk, "C has entered while B joined", group)
    completing = Member(talk, f"{group}-2", "A", protocols=READS_FOUR)
    completing.obtain_id()
    completing.quiet(completing.join())
    new = Consumer(talk, completing.group, "C", topics=[ONE])
    new.ask("C enters before A is assigned", new.enter())
    completing.ask("A syncs too late", completing.sync((completing, share(FOUR, *ALL_FOUR))))
    describe(talk, "C has entered before A was assigned", completing.group)
