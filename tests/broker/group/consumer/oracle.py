"""Apache Kafka's own assignors, reconciliation and expressions, asked in lines of JSON."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import (
    Assignment,
    ConsumerMember,
    MemberSubscription,
    OwnedPartitions,
    SubscriptionType,
    TopicFacts,
)
from odradek.broker.group.consumer.reconcile import ReportedPartitions
from tests.support.apache import program_command

VERSION = "4.3.0"
PROGRAM = Path(__file__).parent / "java" / "GroupOracle.java"
RESPONSE_TIMEOUT_S = 120

Json = dict[str, Any]


class Apache:
    """One JVM that responds until it is closed."""

    def __init__(self, folder: Path) -> None:
        command = program_command(PROGRAM, heap="256m", version=VERSION)
        self._errors = folder / "group-oracle.log"
        with open(self._errors, "wb") as errors:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout

    def ask(self, questions: Sequence[Json]) -> list[Json]:
        """The responses, in the order of the questions."""
        lines = "".join(json.dumps(question) + "\n" for question in questions)
        late = threading.Timer(RESPONSE_TIMEOUT_S, self._child.kill)
        late.start()
        # It responds while it still reads; a caller that only writes would wait for a full pipe.
        asking = threading.Thread(target=self._write, args=(lines,))
        asking.start()
        responses = [self._out.readline() for _ in questions]
        asking.join()
        late.cancel()
        assert all(responses), self._errors.read_text(errors="replace")[-4000:]
        return [json.loads(line) for line in responses]

    def _write(self, lines: str) -> None:
        # A JVM that has ended is seen where its responses are missed.
        with suppress(BrokenPipeError):
            self._in.write(lines)
            self._in.flush()

    def close(self) -> None:
        """End the JVM."""
        with suppress(BrokenPipeError):
            self._in.close()
        try:
            self._child.wait(60)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(60)
        self._out.close()


def written_assignment(assignment: Assignment) -> Json:
    """Topic id -> partitions."""
    return {topic_id.hex: list(numbers) for topic_id, numbers in assignment.items()}


def written_epochs(owned: OwnedPartitions) -> Json:
    """Topic id -> partition -> epoch."""
    return {
        topic_id.hex: {str(number): epoch for number, epoch in epochs.items()}
        for topic_id, epochs in owned.items()
    }


def _written_topics(topics: Iterable[TopicFacts]) -> list[Json]:
    return [
        {"id": topic.topic_id.hex, "name": topic.name, "count": topic.partition_count}
        for topic in topics
    ]


def _written_member(member: ConsumerMember) -> Json:
    return {
        "id": member.member_id,
        "instance": member.instance_id,
        "names": list(member.subscribed_topic_names),
        "regex": member.subscribed_topic_regex,
    }


def assign_question(
    assignor: str,
    kind: SubscriptionType,
    members: Mapping[str, MemberSubscription],
    partition_counts: Mapping[Uuid, int],
    *,
    is_hashed: bool = False,
) -> Json:
    """is_hashed  members in the order of Java's hash map"""
    return {
        "kind": "assign",
        "assignor": assignor,
        "type": kind.name,
        "topics": {topic_id.hex: count for topic_id, count in partition_counts.items()},
        "hashed": is_hashed,
        "members": [
            {
                "id": member_id,
                "instance": member.instance_id,
                "topics": [topic_id.hex for topic_id in member.topic_ids],
                "assignment": written_assignment(member.assignment),
            }
            for member_id, member in members.items()
        ],
    }


def target_question(
    assignor: str,
    topics: Iterable[TopicFacts],
    resolved: Mapping[str, tuple[str, ...]],
    members: Iterable[ConsumerMember],
    present: Mapping[str, Assignment],
    *,
    updated: Iterable[ConsumerMember] = (),
    removed: Sequence[str] = (),
    static_members: Mapping[str, str],
) -> Json:
    """updated, removed  what has become of members since the group was written"""
    return {
        "kind": "target",
        "assignor": assignor,
        "epoch": 7,
        "topics": _written_topics(topics),
        "resolved": {regex: list(names) for regex, names in resolved.items()},
        "members": [_written_member(member) for member in members],
        "present": {
            member_id: written_assignment(assignment) for member_id, assignment in present.items()
        },
        "updated": [_written_member(member) for member in updated],
        "removed": list(removed),
        "static": dict(static_members),
    }


def reconcile_question(
    member: ConsumerMember,
    topics: Iterable[TopicFacts],
    resolved: Mapping[str, tuple[str, ...]],
    *,
    target_epoch: int,
    target: Assignment,
    epochs: OwnedPartitions,
    reported: ReportedPartitions | None,
    has_subscription_changed: bool,
) -> Json:
    """epochs  of all partitions that have an owner"""
    return {
        "kind": "reconcile",
        "topics": _written_topics(topics),
        "resolved": {regex: list(names) for regex, names in resolved.items()},
        "member": {
            **_written_member(member),
            "epoch": member.member_epoch,
            "previous": member.previous_member_epoch,
            "state": member.state.value,
            "assigned": written_epochs(member.assigned_partitions),
            "pending": written_epochs(member.partitions_pending_revocation),
        },
        "target_epoch": target_epoch,
        "target": written_assignment(target),
        "epochs": written_epochs(epochs),
        "reported": None
        if reported is None
        else [[topic_id.hex, list(numbers)] for topic_id, numbers in reported],
        "changed": has_subscription_changed,
    }


def regex_question(regex: str, topics: Iterable[TopicFacts]) -> Json:
    """Is it valid, and which topics match it?"""
    return {"kind": "regex", "regex": regex, "topics": _written_topics(topics)}
