"""Records the conversation: `python -m tests.scripts.conversation` asks a real Apache Kafka.

The responses are in tests/golden/conversation, one file a chapter;
tests/golden/test_conversation.py asks our broker the same and compares.  Chapters are played in
acts, each on a fresh broker with settings of its own: their topics and groups have fixed names.
The acts of Apache Kafka 4.3.0 are in tests/golden/conversation_4_3.

    --act NAME              one act only
    --target HOST:PORT      with --act: record another broker, which must be fresh
    --output FOLDER         where to
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from odradek.protocol.decode_error import DecodeError
from tests.scripts.chapters import (
    cluster,
    configs,
    control,
    fetch,
    groups_joining,
    groups_listing,
    groups_lost,
    groups_migration,
    groups_mixed,
    groups_new,
    groups_offsets,
    groups_rebalancing,
    groups_static,
    metadata,
    moves,
    offsets,
    produce,
    producers,
    security,
    sessions,
    topics,
    transaction_coordinator,
    transactions,
    transactions_offsets,
    transactions_v2,
    versions,
)
from tests.scripts.talk import Talk
from tests.support.apache import apache_node
from tests.support.apache_kraft import apache_kraft_node
from tests.support.tool_cache import PROJECT
from tests.support.wire import Closed

GOLDEN: Final = PROJECT / "tests" / "golden" / "conversation"
GOLDEN_4_3: Final = PROJECT / "tests" / "golden" / "conversation_4_3"

Chapter = Callable[[Talk], None]


@dataclass(frozen=True, slots=True)
class Act:
    """Chapters that are played in their order on one fresh broker."""

    chapters: Mapping[str, Chapter]
    settings: Mapping[str, str] = field(default_factory=dict)


GENERAL: Final[Mapping[str, Chapter]] = {
    "versions": versions.play,
    "metadata": metadata.play,
    "topics": topics.play,
    "configs": configs.play,
    "cluster": cluster.play,
    "produce": produce.play,
    "producers": producers.play,
    "fetch": fetch.play,
    "sessions": sessions.play,
    "offsets": offsets.play,
}
CLASSIC_GROUPS: Final[Mapping[str, Chapter]] = {
    "groups_listing": groups_listing.play,
    "groups_joining": groups_joining.play,
    "groups_static": groups_static.play,
    "groups_rebalancing": groups_rebalancing.play,
    "groups_offsets": groups_offsets.play,
}
GROUP_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "4",
    "offsets.topic.num.partitions": "10",
    "offsets.topic.replication.factor": "1",
}
"""Sessions short enough to wait for their end, groups small enough to be full."""

CONSUMER_GROUPS: Final[Mapping[str, Chapter]] = {
    "groups_mixed": groups_mixed.play,
    "groups_migration": groups_migration.play,
    "groups_new": groups_new.play,
    "groups_lost": groups_lost.play,
}
CONSUMER_SETTINGS: Final = {
    **GROUP_SETTINGS,
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.session.timeout.ms": "4000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.max.size": "3",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
}
"""Assignments are made at once, and in the heartbeat that wants them."""

TRANSACTION_SETTINGS: Final = {
    "transaction.partition.verification.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "10",
    "offsets.topic.replication.factor": "1",
}
"""Without a transaction coordinator: the chapters send the markers."""

ACTS: Final = {
    "general": Act(GENERAL),
    "groups": Act(CLASSIC_GROUPS, GROUP_SETTINGS),
    "control": Act({"control": control.play}, {"odradek.embedded.zookeeper.listener": "0"}),
    "transaction_coordinator": Act(
        {"transaction_coordinator": transaction_coordinator.play}, transaction_coordinator.SETTINGS
    ),
    "transactions": Act(
        {"transactions": transactions.play, "transactions_offsets": transactions_offsets.play},
        TRANSACTION_SETTINGS,
    ),
    "security": Act({"security": security.play}),
    "moves": Act({"moves": moves.play}, {"auto.leader.rebalance.enable": "false"}),
}
ACTS_4_3: Final = {
    "groups": Act(CLASSIC_GROUPS, GROUP_SETTINGS),
    "consumer_groups": Act(CONSUMER_GROUPS, CONSUMER_SETTINGS),
    "transactions_v2": Act({"transactions_v2": transactions_v2.play}, transactions_v2.SETTINGS),
}
"""What is asked of Apache Kafka 4.3.0 besides."""

CHAPTERS: Final = {
    name: chapter
    for act in (*ACTS.values(), *ACTS_4_3.values())
    for name, chapter in act.chapters.items()
}

STORED: Final = "stored: "
"""Steps that show records of `__consumer_offsets` begin with it."""
BROKEN_OFF: Final = "the chapter broke off"

Steps = dict[str, Any]


def play_chapter(name: str, address: str, *, to_the_end: bool = True) -> Steps:
    """Ask everything of one chapter; the responses by the names of the steps.

    to_the_end  False: a chapter that cannot go on ends with a step that says why
    """
    talk = Talk(address)
    try:
        CHAPTERS[name](talk)
    except (AssertionError, Closed, DecodeError) as error:
        if to_the_end:
            raise
        talk.steps[BROKEN_OFF] = repr(error)
    finally:
        talk.close()
    return talk.steps


def write(folder: Path, name: str, steps: Steps) -> None:
    """One step a line, so that a change of one response is a change of one line."""
    lines = [f"{json.dumps(step)}: {json.dumps(response)}" for step, response in steps.items()]
    (folder / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(folder: Path, name: str) -> Steps:
    """What `write` wrote."""
    steps: Steps = json.loads((folder / f"{name}.json").read_text())
    return steps


def record(act: Act, address: str, folder: Path) -> None:
    """All chapters of an act."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in act.chapters:
        steps = play_chapter(name, address)
        if folder == GOLDEN_4_3 and name in CLASSIC_GROUPS:
            # What it stores of them is of later versions.
            steps = {name: what for name, what in steps.items() if not name.startswith(STORED)}
        write(folder, name, steps)
        print(f"{name}: {len(steps)} steps")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Record the conversation with a broker.")
    parser.add_argument("--act", choices=ACTS | ACTS_4_3, help="default: all")
    parser.add_argument("--target", help="host:port of a fresh broker; default: Apache Kafka")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    if options.target:
        if not options.act:
            parser.error("--target needs --act: each act wants a fresh broker")
        record((ACTS | ACTS_4_3)[options.act], options.target, options.output or GOLDEN)
        return
    for node, acts, golden in (
        (apache_node, ACTS, GOLDEN),
        (apache_kraft_node, ACTS_4_3, GOLDEN_4_3),
    ):
        for name, act in acts.items():
            if options.act in (None, name):
                with (
                    tempfile.TemporaryDirectory() as folder,
                    node(Path(folder), overrides=act.settings) as apache,
                ):
                    record(act, apache.address, options.output or golden)


if __name__ == "__main__":
    main()
