"""`odradek consumer-groups` and Apache Kafka's ConsumerGroupCommand: the same lines.

`consumer_groups_conversation_3_9_2.txt` has the output of Apache's tool with our broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.odradek.comparison import comparable
from tests.odradek.console_tools import ApacheTools
from tests.odradek.consumer_groups_conversation import (
    NO_DELAY,
    RECORDED,
    command_lines,
    our_tool,
    play,
)
from tests.odradek.consumer_groups_conversation_scene import scene
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker

Served = tuple[str, Path]


@pytest.fixture(scope="module", params=["odradek", pytest.param("apache", marks=pytest.mark.slow)])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """The address of a broker with the scene, ours or Apache's, and the folder of its files."""
    folder = tmp_path_factory.mktemp(request.param)
    running = (
        odradek_broker(folder, overrides=NO_DELAY)
        if request.param == "odradek"
        else apache_node(folder)
    )
    with running as broker, scene(broker.address, folder):
        yield broker.address, folder


def exported(text: str) -> list[str]:
    """The rows that a command line has exported, sorted."""
    return sorted(line[2:] for line in text.splitlines() if re.match(r"  \S.*,\d+$", line))


@pytest.mark.judge
@pytest.mark.timeout(900)
def test_both_tools_read_and_write_equal_files_and_print_the_recorded_lines(
    served: Served, silent_apache_tools: ApacheTools
) -> None:
    address, folder = served
    tool = partial(silent_apache_tools, "consumer-groups")
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
