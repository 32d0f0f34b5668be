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
        member_a = Consumer(talk, group, "A", topics=[FOUR], version=version)
        for label, request in (
            ("no group", member_a.enter(group_id="")),
            ("no id and an epoch", member_a.heartbeat(member_id="", member_epoch=1)),
            ("no id, leaving", member_a.heartbeat(member_id="", member_epoch=LEAVE)),
            ("an empty instance", member_a.enter(instance_id="")),
            ("an empty rack", member_a.enter(rack_id="")),
            ("no rebalance timeout", member_a.enter(rebalance_timeout_ms=-1)),
            ("no partitions", member_a.enter(topic_partitions=None)),
            (
                "partitions that it cannot have",
                member_a.report({UNKNOWN_TOPIC: [0]}, member_epoch=0),
            ),
            ("no subscription", member_a.enter(subscribed_topic_names=None)),
            ("epoch -3", member_a.heartbeat(member_epoch=-3)),
            (
                "leaving for a while without instance",
                member_a.heartbeat(member_epoch=LEAVE_FOR_A_WHILE),
            ),
            ("an unknown assignor", member_a.enter(server_assignor="sticky")),
            ("an empty assignor", member_a.enter(server_assignor="")),
            ("an unknown group", member_a.heartbeat(member_epoch=5)),
            ("leaving an unknown group", member_a.heartbeat(member_epoch=LEAVE)),
            (
                "leaving an unknown group for a while",
                member_a.heartbeat(member_epoch=LEAVE_FOR_A_WHILE, instance_id="i"),
            ),
        ):
            member_a.ask(label, request)
    describe(talk, "no member has entered", group)
    describe(talk, "no member has entered, described before", group, version=0)


def alone(talk: Talk, version: int) -> None:
    """One member from its first heartbeat to its last."""
    group = f"new-alone-{version}"
    member_a = Consumer(talk, group, "A", topics=[FOUR], version=version)
    member_a.ask("A enters", member_a.enter())
    describe(talk, f"A has entered {group}", group, version=version)
    member_a.ask("A reports", member_a.report())
    member_a.ask("A heartbeats", member_a.heartbeat())
    describe(talk, f"A is stable in {group}", group, version=version)
    member_a.ask("A reports part of it", member_a.report({key: [0, 1] for key in member_a.owned}))
    member_a.ask(
        "A reports too much", member_a.report({key: [0, 1, 2, 3, 9] for key in member_a.owned})
    )
    member_a.ask("A reports an unknown topic", member_a.report({UNKNOWN_TOPIC: [0]}))
    member_a.ask("A says everything again", member_a.enter(member_epoch=member_a.epoch))
    member_a.ask("an epoch of the future", member_a.heartbeat(member_epoch=member_a.epoch + 1))
    member_a.ask("an unknown member", member_a.heartbeat(member_id="unknown"))
    member_a.ask("an unknown member leaves", member_a.leave(member_id="unknown"))
    member_a.ask("A enters again", member_a.enter())
    member_a.ask("A enters with another subscription", member_a.enter(subscribed_topic_names=[ONE]))
    member_a.ask("the old epoch", member_a.report(member_epoch=member_a.epoch - 1))
    member_a.ask(
        "the old epoch, without partitions", member_a.heartbeat(member_epoch=member_a.epoch - 1)
    )
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    talk.ask(f"{group} with operations", request, version)
    member_a.ask("A leaves", member_a.leave())
    describe(talk, f"A has left {group}", group, version=version)
    member_a.ask("A leaves again", member_a.leave())
    member_a.ask("A heartbeats after all", member_a.heartbeat())
    nameless = Consumer(talk, group, "B", topics=[], version=version)
    nameless.ask("B enters without topics", nameless.enter())
    describe(talk, f"B has no topics in {group}", group, version=version)
    nameless.ask("B leaves", nameless.leave())
    stored(talk, group)


def two_members(talk: Talk) -> None:
    """A gives half of what it has to B, and gets it back."""
    group = "new-two"
    member_a = Consumer(talk, group, "A", topics=[FOUR])
    member_b = Consumer(talk, group, "B", topics=[FOUR])
    member_a.ask("A enters", member_a.enter())
    member_a.ask("A reports", member_a.report())
    member_b.ask("B enters", member_b.enter())
    describe(talk, "B waits for A", group)
    member_b.ask("B has nothing yet", member_b.heartbeat())
    member_a.ask("A has to give up", member_a.heartbeat())
    describe(talk, "A has not given up yet", group)
    member_a.ask("A heartbeats before it has given up", member_a.heartbeat())
    member_b.ask("B still waits", member_b.heartbeat())
    member_a.ask("A has given up", member_a.report())
    describe(talk, "A has given up", group)
    member_b.ask("B gets what A gave up", member_b.heartbeat())
    member_b.ask("B reports", member_b.report())
    member_a.ask("A heartbeats", member_a.heartbeat())
    describe(talk, "both are stable", group)
    member_b.ask("B leaves", member_b.leave())
    describe(talk, "B has left", group)
    member_a.ask("A gets all", member_a.heartbeat())
    member_a.ask("A reports all", member_a.report())
    describe(talk, "A is stable again", group)
    stored(talk, group)


def steps_of_revocation(talk: Talk) -> None:
    """What A may say while it still holds what it is to give up."""
    group = "new-revoking"
    member_a = Consumer(talk, group, "A", topics=[FOUR])
    member_b = Consumer(talk, group, "B", topics=[FOUR])
    member_c = Consumer(talk, group, "C", topics=[FOUR])
    member_a.quiet(member_a.enter())
    member_a.quiet(member_a.report())
    before = dict(member_a.owned)
    old_epoch = member_a.epoch
    member_b.ask("B enters", member_b.enter())
    member_a.ask("A has to give up", member_a.heartbeat())
    member_a.ask("A reports what it had", member_a.report(before))
    member_a.ask(
        "A loses the response and heartbeats with all",
        member_a.report(before, member_epoch=old_epoch),
    )
    member_c.ask("C enters meanwhile", member_c.enter())
    member_a.ask("A has given up what it had to first", member_a.report())
    describe(talk, "three share", group)
    member_a.ask("A heartbeats", member_a.heartbeat())
    member_a.ask("A reports", member_a.report())
    member_b.ask("B heartbeats", member_b.heartbeat())
    member_c.ask("C heartbeats", member_c.heartbeat())
    member_b.ask("B reports", member_b.report())
    member_c.ask("C reports", member_c.report())
    member_a.ask("A heartbeats again", member_a.heartbeat())
    describe(talk, "three have their shares", group)
    member_a.ask("A with its epoch of before", member_a.report(member_epoch=old_epoch))
    member_a.ask("A enters again", member_a.enter())
    describe(talk, "A has entered again", group)
    member_b.ask("B leaves", member_b.leave())
    member_a.ask("A heartbeats when B has left", member_a.heartbeat())
    member_a.ask("A reports when B has left", member_a.report())
    member_c.ask("C heartbeats when B has left", member_c.heartbeat())
    describe(talk, "two are left", group)
    stored(talk, group)


def no_acknowledgement(talk: Talk) -> None:
    """A member that does not give up in its rebalance timeout is out."""
    group = "new-stubborn"
    member_a = Consumer(talk, group, "A", topics=[FOUR], rebalance_timeout_ms=SHORT_MS)
    member_b = Consumer(talk, group, "B", topics=[FOUR])
    member_a.quiet(member_a.enter())
    member_a.quiet(member_a.report())
    member_b.quiet(member_b.enter())
    member_a.ask("A has to give up", member_a.heartbeat())
    wait_for_members(talk, group, 1)
    member_a.ask("A is out", member_a.heartbeat())
    member_b.ask("B gets all", member_b.heartbeat())
    describe(talk, "B has it all", group)
    stored(talk, group)


def assignors(talk: Talk) -> None:
    """What members ask for: the majority decides."""
    group = "new-assignors"
    member_a = Consumer(talk, group, "A", topics=[FOUR, ONE], assignor="range")
    member_b = Consumer(talk, group, "B", topics=[FOUR], assignor="uniform")
    member_c = Consumer(talk, group, "C", topics=[FOUR], assignor="uniform")
    member_a.ask("A wants range", member_a.enter())
    describe(talk, "by range", group)
    member_b.ask("B wants uniform", member_b.enter())
    member_c.ask("C wants uniform", member_c.enter())
    describe(talk, "by the majority", group)
    member_c.ask("C does not care", member_c.heartbeat(server_assignor="range"))
    describe(talk, "by the other one", group)
    member_c.ask("C wants nonsense", member_c.heartbeat(server_assignor="nonsense"))
    member_c.ask("C wants a longer time", member_c.heartbeat(rebalance_timeout_ms=SHORT_MS))


def subscriptions(talk: Talk) -> None:
    """Topics are added, unknown, taken away."""
    group = "new-subscriptions"
    member_a = Consumer(talk, group, "A", topics=[ONE])
    member_a.ask("A enters", member_a.enter())
    for label, names in (
        ("one more", [ONE, FOUR]),
        ("the same in another order", [FOUR, ONE]),
        ("one twice", [FOUR, ONE, FOUR]),
        ("an unknown one besides", [FOUR, "never-made"]),
        ("an empty name", [""]),
        ("a name that no topic can have", ["no/name"]),
        ("nothing", []),
    ):
        member_a.ask(f"A wants {label}", member_a.heartbeat(subscribed_topic_names=names))
        member_a.ask(f"A reports after {label}", member_a.report())
        describe(talk, f"{group} after {label}", group)


def topics_change(talk: Talk) -> None:
    """A topic comes, grows and goes."""
    group = "new-topics"
    member_a = Consumer(talk, group, "A", topics=["new-later"])
    member_a.ask("A enters before its topic is there", member_a.enter())
    describe(talk, "no topic yet", group)
    talk.make_topic("new-later", 2)
    member_a.until_assigned("the topic is made", 2)
    member_a.ask("A reports", member_a.report())
    describe(talk, "the topic is there", group)
    grown = CreatePartitionsTopic(name="new-later", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=False)
    talk.quiet(request, 3)
    member_a.until_assigned("the topic has grown", 3)
    member_a.ask("A reports more", member_a.report())
    gone = DeleteTopicState(name="new-later", topic_id=ZERO_UUID)
    talk.quiet(DeleteTopicsRequest(topics=[gone], timeout_ms=10_000), 6)
    member_a.until_assigned("the topic is gone", 0)
    member_a.ask("A reports nothing", member_a.report())
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
