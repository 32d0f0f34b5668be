"""Responses of heartbeats that are lost (KIP-848): the member repeats them in its previous epoch.

A library repeats the same bytes (librdkafka after a time-out, which is one heartbeat interval), or
sends everything that it knows (the Java client after any error).
"""

from __future__ import annotations

from typing import Any, Final

from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.scripts.chapters.groups_consumers import Consumer, Owned, describe
from tests.scripts.chapters.groups_members import wait_for_coordinator
from tests.scripts.talk import Talk

TOPIC: Final = "lost-four"
REPEATS: Final = (
    "the same",
    "bare",
    "all it had",
    "half of it",
    "nothing",
    "everything, with all it had",
    "everything, with half of it",
    "everything, with nothing",
    "everything, without partitions",
)
LOSSES: Final = ("give up", "given up", "get more", "wait over")


def play(talk: Talk) -> None:
    """Each loss and repetition in a group of its own."""
    wait_for_coordinator(talk)
    talk.make_topic(TOPIC, 4)
    first = Consumer(talk, "lost-none", "A", topics=[TOPIC])
    first.quiet(first.enter())
    first.until_assigned("the coordinator knows the topic", 4)
    for loss in LOSSES:
        for number, repeat in enumerate(REPEATS):
            lost(talk, f"lost-{loss.replace(' ', '-')}-{number}", loss, repeat)


def lost(talk: Talk, group: str, loss: str, repeat: str) -> None:
    """One response that does not arrive, what the member sends then, and what becomes of it."""
    member_a = Consumer(talk, group, "A", topics=[TOPIC])
    member_b = Consumer(talk, group, "B", topics=[TOPIC])
    member_a.quiet(member_a.enter())
    member_a.quiet(member_a.report())
    member_b.quiet(member_b.enter())
    member = member_a
    request = member_a.heartbeat()
    if loss != "give up":
        member_a.quiet(request)
        request = member_a.report()
    if loss == "get more":
        member_a.quiet(request)
        member_b.quiet(member_b.leave())
        request = member_a.heartbeat()
    if loss == "wait over":
        member_a.quiet(request)
        member, request = member_b, member_b.heartbeat()
    talk.quiet(request, member.version)
    member.ask(f"{repeat} again", repetition(member, request, repeat))
    member.ask("it goes on", member.heartbeat())
    member.ask("it reports", member.report())
    describe(talk, group, group)


def repetition(
    member: Consumer, request: ConsumerGroupHeartbeatRequest, repeat: str
) -> ConsumerGroupHeartbeatRequest:
    """What a member sends that does not know what its last request has done."""
    had = {topic_id: list(partitions) for topic_id, partitions in member.owned.items()}
    half: Owned = {topic_id: partitions[:2] for topic_id, partitions in had.items()}
    whole: dict[str, Any] = {
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscribed_topic_names": member.topics,
    }
    match repeat:
        case "the same":
            return request
        case "bare":
            return member.heartbeat()
        case "all it had":
            return member.report(had)
        case "half of it":
            return member.report(half)
        case "nothing":
            return member.report({})
        case "everything, with all it had":
            return member.report(had, **whole)
        case "everything, with half of it":
            return member.report(half, **whole)
        case "everything, with nothing":
            return member.report({}, **whole)
    return member.heartbeat(**whole)
