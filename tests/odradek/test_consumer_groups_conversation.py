"""`odradek consumer-groups` and Apache Kafka's ConsumerGroupCommand: the same lines.

Everything is held against `consumer_groups_conversation_3_9_2.txt`, which Apache's tool has said
before a broker of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.odradek.consumer_groups_conversation import (
    NO_DELAY,
    RECORDED,
    apache_tool,
    command_lines,
    our_tool,
    play,
)
from tests.odradek.consumer_groups_conversation_scene import scene
from tests.odradek.topics_tools import ApacheTool
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker

LEFT_TO_CHANCE = ("--group pair --members", "--all-groups --members")
"""Apache's broker keeps members in a hash map of their ids, which it draws."""

Apache = tuple[str, Path]


def test_our_tool_before_our_broker_prints_what_apache_prints(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=NO_DELAY) as broker, scene(broker.address, tmp_path):
        said = play(our_tool, broker.address, command_lines(), tmp_path)
    assert said == RECORDED.read_text()


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    """The address of a broker of Apache's with the scene, and the folder of its files."""
    folder = tmp_path_factory.mktemp("apache")
    with apache_node(folder) as broker, scene(broker.address, folder):
        yield broker.address, folder


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTool]:
    """Apache's tool."""
    with apache_tool(tmp_path_factory.mktemp("tool")) as tool:
        yield tool


def exported(text: str) -> str:
    """The rows that one command line has exported."""
    return "".join(f"{line[2:]}\n" for line in text.splitlines() if re.match(r"  \S.*,\d+$", line))


@pytest.mark.judge
@pytest.mark.timeout(180)
def test_before_apache_kafka_both_tools_export_and_take_the_same_files_then_say_the_same(
    apache: Apache, tool: ApacheTool
) -> None:
    address, folder = apache
    groups = "--group many-partitions --group latter --group group-with-a-name-of-some-length"
    export = f"--reset-offsets {groups} --all-topics --dry-run --export"
    current = [f"{export} --to-current"]
    before = play(our_tool, address, current, folder)
    assert before == play(tool, address, current, folder)
    assert len(exported(before).splitlines()) == 15
    for ours_reads, scenario in ((True, "--to-latest"), (False, "--shift-by -1")):
        reader, writer = (our_tool, tool) if ours_reads else (tool, our_tool)
        said = play(writer, address, [f"{export} {scenario}"], folder)
        (folder / "exported.csv").write_text(exported(said))
        taken = f"--reset-offsets {groups} --from-file @/exported.csv --execute --export"
        assert exported(play(reader, address, [taken], folder)) == exported(said)
        assert exported(play(writer, address, current, folder)) == exported(said)
    # Back to where it began, with the file of a single group, which has no column for it.
    for group in groups.replace("--group ", "").split():
        rows = [row.split(",", 1) for row in exported(before).splitlines()]
        mine = [row for name, row in rows if name.strip('"') == group]
        (folder / "exported.csv").write_text("\n".join(mine))
        taken = f"--reset-offsets --group {group} --from-file @/exported.csv --execute"
        play(our_tool, address, [taken], folder)
    assert play(tool, address, current, folder) == before
    lines = [line for line in command_lines() if not any(part in line for part in LEFT_TO_CHANCE)]
    said = play(our_tool, address, lines, folder)
    assert said == without_chance(RECORDED.read_text())


def without_chance(recorded: str) -> str:
    """The recorded conversation without some of its command lines."""
    told = re.split(r"^(?=\$ )", recorded, flags=re.MULTILINE)
    return "".join(
        one for one in told if not any(part in one.split("\n", 1)[0] for part in LEFT_TO_CHANCE)
    )
