"""`odradek consumer-groups` and Apache Kafka's ConsumerGroupCommand: the same lines.

`consumer_groups_conversation_3_9_2.txt` has the output of Apache's tool with our broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.odradek.comparison import comparable
from tests.odradek.consumer_groups_conversation import (
    NO_DELAY,
    RECORDED,
    apache_tool,
    command_lines,
    our_tool,
    play,
)
from tests.odradek.consumer_groups_conversation_scene import scene
from tests.odradek.topics_tools import Tool
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker

Apache = tuple[str, Path]


def test_our_tool_with_our_broker_prints_the_recorded_lines(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=NO_DELAY) as broker, scene(broker.address, tmp_path):
        output = play(our_tool, broker.address, command_lines(), tmp_path)
    assert comparable(output) == comparable(RECORDED.read_text())


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    """The address of Apache's broker with the scene, and the folder of its files."""
    folder = tmp_path_factory.mktemp("apache")
    with apache_node(folder) as broker, scene(broker.address, folder):
        yield broker.address, folder


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """Apache's tool."""
    with apache_tool(tmp_path_factory.mktemp("tool")) as tool:
        yield tool


def exported(text: str) -> list[str]:
    """The rows that a command line has exported, sorted."""
    return sorted(line[2:] for line in text.splitlines() if re.match(r"  \S.*,\d+$", line))


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_both_tools_with_apache_kafka_read_and_write_equal_files_and_print_the_same(
    apache: Apache, tool: Tool
) -> None:
    address, folder = apache
    groups = "--group many-partitions --group latter --group group-with-a-name-of-some-length"
    export = f"--reset-offsets {groups} --all-topics --dry-run --export"
    current = [f"{export} --to-current"]
    before = play(our_tool, address, current, folder)
    assert comparable(before) == comparable(play(tool, address, current, folder))
    assert len(exported(before)) == 15
    for ours_reads, scenario in ((True, "--to-latest"), (False, "--shift-by -1")):
        reader, writer = (our_tool, tool) if ours_reads else (tool, our_tool)
        output = play(writer, address, [f"{export} {scenario}"], folder)
        (folder / "exported.csv").write_text("\n".join(exported(output)))
        taken = f"--reset-offsets {groups} --from-file @/exported.csv --execute --export"
        assert exported(play(reader, address, [taken], folder)) == exported(output)
        assert exported(play(writer, address, current, folder)) == exported(output)
    # Restore the offsets, from a file of a single group, which has no column for the group.
    for group in groups.replace("--group ", "").split():
        rows = [row.split(",", 1) for row in exported(before)]
        mine = [row for name, row in rows if name.strip('"') == group]
        (folder / "exported.csv").write_text("\n".join(mine))
        taken = f"--reset-offsets --group {group} --from-file @/exported.csv --execute"
        play(our_tool, address, [taken], folder)
    assert comparable(play(tool, address, current, folder)) == comparable(before)
    output = play(our_tool, address, command_lines(), folder)
    assert comparable(output) == comparable(RECORDED.read_text())
