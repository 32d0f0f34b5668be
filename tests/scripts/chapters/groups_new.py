"""Groups of the new protocol (KIP-848): members come and go, assignments move, epochs fence."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.chapters.groups_consumers import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Consumer,
    describe,
    wait_for_members,
)
from tests.scripts.chapters.groups_members import wait_for_coordinator
from tests.scripts.chapters.groups_stored import stored
from tests.scripts.talk import Talk

FOUR: Final = "new-four"
ONE: Final = "new-one"
SHORT_MS: Final = 500
UNKNOWN_TOPIC: Final = UUID(int=99)


def play(talk: Talk) -> None:
    """Each story in a group of its own."""
    wait_for_coordinator(talk)
    talk.make_topic(FOUR, 4)
    talk.make_topic(ONE, 1)
    silent = Consumer(talk, "new-session", "A", topics=[FOUR])
    silent.ask("A enters and is not heard again", silent.enter())
    refused(talk)
    for version in (0, 1):
        alone(talk, version)
    two_members(talk)
    steps_of_revocation(talk)
    no_acknowledgement(talk)
    assignors(talk)
    subscriptions(talk)
    topics_change(talk)
    full_group(talk)
    wait_for_members(talk, "new-session", 0)
    describe(talk, "the silent one is out", "new-session")
    silent.ask("A is back", silent.heartbeat())
    stored(talk, "new-session")


def refused(talk: Talk) -> None:
    """Everything that can be wrong with a heartbeat."""
    group = "new-refused"
    for version in (0, 1):
        one = Consumer(talk, group, "A", topics=[FOUR], version=version)
        for label, request in (
            ("no group", one.enter(group_id="")),
            ("no id and an epoch", one.heartbeat(member_id="", member_epoch=1)),
            ("no id, leaving", one.heartbeat(member_id="", member_epoch=LEAVE)),
            ("an empty instance", one.enter(instance_id="")),
            ("an empty rack", one.enter(rack_id="")),
            ("no rebalance timeout", one.enter(rebalance_timeout_ms=-1)),
            ("no partitions", one.enter(topic_partitions=None)),
            ("partitions that it cannot have", one.report({UNKNOWN_TOPIC: [0]}, member_epoch=0)),
            ("no subscription", one.enter(subscribed_topic_names=None)),
            ("epoch -3", one.heartbeat(member_epoch=-3)),
            ("leaving for a while without instance", one.heartbeat(member_epoch=LEAVE_FOR_A_WHILE)),
            ("an unknown assignor", one.enter(server_assignor="sticky")),
            ("an empty assignor", one.enter(server_assignor="")),
            ("an unknown group", one.heartbeat(member_epoch=5)),
            ("leaving an unknown group", one.heartbeat(member_epoch=LEAVE)),
            (
                "leaving an unknown group for a while",
                one.heartbeat(member_epoch=LEAVE_FOR_A_WHILE, instance_id="i"),
            ),
        ):
            one.ask(label, request)
    describe(talk, "no member has entered", group)
    describe(talk, "no member has entered, described before", group, version=0)


def alone(talk: Talk, version: int) -> None:
    """One member from its first heartbeat to its last."""
    group = f"new-alone-{version}"
    one = Consumer(talk, group, "A", topics=[FOUR], version=version)
    one.ask("A enters", one.enter())
    describe(talk, f"A has entered {group}", group, version=version)
    one.ask("A reports", one.report())
    one.ask("A heartbeats", one.heartbeat())
    describe(talk, f"A is stable in {group}", group, version=version)
    one.ask("A reports part of it", one.report({key: [0, 1] for key in one.owned}))
    one.ask("A reports too much", one.report({key: [0, 1, 2, 3, 9] for key in one.owned}))
    one.ask("A reports an unknown topic", one.report({UNKNOWN_TOPIC: [0]}))
    one.ask("A says everything again", one.enter(member_epoch=one.epoch))
    one.ask("an epoch of the future", one.heartbeat(member_epoch=one.epoch + 1))
    one.ask("an unknown member", one.heartbeat(member_id="unknown"))
    one.ask("an unknown member leaves", one.leave(member_id="unknown"))
    one.ask("A enters again", one.enter())
    one.ask("A enters with another subscription", one.enter(subscribed_topic_names=[ONE]))
    one.ask("the old epoch", one.report(member_epoch=one.epoch - 1))
    one.ask("the old epoch, without partitions", one.heartbeat(member_epoch=one.epoch - 1))
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    talk.ask(f"{group} with operations", request, version)
    one.ask("A leaves", one.leave())
    describe(talk, f"A has left {group}", group, version=version)
    one.ask("A leaves again", one.leave())
    one.ask("A heartbeats after all", one.heartbeat())
    nameless = Consumer(talk, group, "B", topics=[], version=version)
    nameless.ask("B enters without topics", nameless.enter())
    describe(talk, f"B has no topics in {group}", group, version=version)
    nameless.ask("B leaves", nameless.leave())
    stored(talk, group)


def two_members(talk: Talk) -> None:
    """A gives half of what it has to B, and gets it back."""
    group = "new-two"
    one = Consumer(talk, group, "A", topics=[FOUR])
    two = Consumer(talk, group, "B", topics=[FOUR])
    one.ask("A enters", one.enter())
    one.ask("A reports", one.report())
    two.ask("B enters", two.enter())
    describe(talk, "B waits for A", group)
    two.ask("B has nothing yet", two.heartbeat())
    one.ask("A has to give up", one.heartbeat())
    describe(talk, "A has not given up yet", group)
    one.ask("A heartbeats before it has given up", one.heartbeat())
    two.ask("B still waits", two.heartbeat())
    one.ask("A has given up", one.report())
    describe(talk, "A has given up", group)
    two.ask("B gets what A gave up", two.heartbeat())
    two.ask("B reports", two.report())
    one.ask("A heartbeats", one.heartbeat())
    describe(talk, "both are stable", group)
    two.ask("B leaves", two.leave())
    describe(talk, "B has left", group)
    one.ask("A gets all", one.heartbeat())
    one.ask("A reports all", one.report())
    describe(talk, "A is stable again", group)
    stored(talk, group)


def steps_of_revocation(talk: Talk) -> None:
    """What A may say while it still holds what it is to give up."""
    group = "new-revoking"
    one = Consumer(talk, group, "A", topics=[FOUR])
    two = Consumer(talk, group, "B", topics=[FOUR])
    three = Consumer(talk, group, "C", topics=[FOUR])
    one.quiet(one.enter())
    one.quiet(one.report())
    before = dict(one.owned)
    old_epoch = one.epoch
    two.ask("B enters", two.enter())
    one.ask("A has to give up", one.heartbeat())
    one.ask("A reports what it had", one.report(before))
    one.ask(
        "A loses the response and heartbeats with all", one.report(before, member_epoch=old_epoch)
    )
    three.ask("C enters meanwhile", three.enter())
    one.ask("A has given up what it had to first", one.report())
    describe(talk, "three share", group)
    one.ask("A heartbeats", one.heartbeat())
    one.ask("A reports", one.report())
    two.ask("B heartbeats", two.heartbeat())
    three.ask("C heartbeats", three.heartbeat())
    two.ask("B reports", two.report())
    three.ask("C reports", three.report())
    one.ask("A heartbeats again", one.heartbeat())
    describe(talk, "three have their shares", group)
    one.ask("A with its epoch of before", one.report(member_epoch=old_epoch))
    one.ask("A enters again", one.enter())
    describe(talk, "A has entered again", group)
    two.ask("B leaves", two.leave())
    one.ask("A heartbeats when B has left", one.heartbeat())
    one.ask("A reports when B has left", one.report())
    three.ask("C heartbeats when B has left", three.heartbeat())
    describe(talk, "two are left", group)
    stored(talk, group)


def no_acknowledgement(talk: Talk) -> None:
    """A member that does not give up in its rebalance timeout is out."""
    group = "new-stubborn"
    one = Consumer(talk, group, "A", topics=[FOUR], rebalance_timeout_ms=SHORT_MS)
    two = Consumer(talk, group, "B", topics=[FOUR])
    one.quiet(one.enter())
    one.quiet(one.report())
    two.quiet(two.enter())
    one.ask("A has to give up", one.heartbeat())
    wait_for_members(talk, group, 1)
    one.ask("A is out", one.heartbeat())
    two.ask("B gets all", two.heartbeat())
    describe(talk, "B has it all", group)
    stored(talk, group)


def assignors(talk: Talk) -> None:
    """What members ask for: the majority decides."""
    group = "new-assignors"
    one = Consumer(talk, group, "A", topics=[FOUR, ONE], assignor="range")
    two = Consumer(talk, group, "B", topics=[FOUR], assignor="uniform")
    three = Consumer(talk, group, "C", topics=[FOUR], assignor="uniform")
    one.ask("A wants range", one.enter())
    describe(talk, "by range", group)
    two.ask("B wants uniform", two.enter())
    three.ask("C wants uniform", three.enter())
    describe(talk, "by the majority", group)
    three.ask("C does not care", three.heartbeat(server_assignor="range"))
    describe(talk, "by the other one", group)
    three.ask("C wants nonsense", three.heartbeat(server_assignor="nonsense"))
    three.ask("C wants a longer time", three.heartbeat(rebalance_timeout_ms=SHORT_MS))


def subscriptions(talk: Talk) -> None:
    """Topics are added, unknown, taken away."""
    group = "new-subscriptions"
    one = Consumer(talk, group, "A", topics=[ONE])
    one.ask("A enters", one.enter())
    for label, names in (
        ("one more", [ONE, FOUR]),
        ("the same in another order", [FOUR, ONE]),
        ("one twice", [FOUR, ONE, FOUR]),
        ("an unknown one besides", [FOUR, "never-made"]),
        ("an empty name", [""]),
        ("a name that no topic can have", ["no/name"]),
        ("nothing", []),
    ):
        one.ask(f"A wants {label}", one.heartbeat(subscribed_topic_names=names))
        one.ask(f"A reports after {label}", one.report())
        describe(talk, f"{group} after {label}", group)


def topics_change(talk: Talk) -> None:
    """A topic comes, grows and goes."""
    group = "new-topics"
    one = Consumer(talk, group, "A", topics=["new-later"])
    one.ask("A enters before its topic is there", one.enter())
    describe(talk, "no topic yet", group)
    talk.make_topic("new-later", 2)
    one.until_assigned("the topic is made", 2)
    one.ask("A reports", one.report())
    describe(talk, "the topic is there", group)
    grown = CreatePartitionsTopic(name="new-later", count=3, assignments=None)
    wanted = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=False)
    talk.quiet(wanted, 3)
    one.until_assigned("the topic has grown", 3)
    one.ask("A reports more", one.report())
    gone = DeleteTopicState(name="new-later", topic_id=ZERO_UUID)
    talk.quiet(DeleteTopicsRequest(topics=[gone], timeout_ms=10_000), 6)
    one.until_assigned("the topic is gone", 0)
    one.ask("A reports nothing", one.report())
    describe(talk, "the topic is gone", group)
    stored(talk, group)


def full_group(talk: Talk) -> None:
    """group.consumer.max.size is 3."""
    group = "new-full"
    members = [Consumer(talk, group, name, topics=[FOUR]) for name in "ABCD"]
    for member in members:
        member.ask(f"{member.name} enters", member.enter())
    members[0].ask("A leaves", members[0].leave())
    members[3].ask("D enters again", members[3].enter())
