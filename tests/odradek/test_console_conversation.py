"""The console tools with our broker print the lines of Apache Kafka's tools with Apache's broker.

The lines are recorded in `console_conversation_3_9_2.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.odradek.console_conversation import AT_ONCE, RECORDED, play_all, sections
from tests.odradek.console_tools import ApacheTools, our_tool, our_tool_here, play
from tests.support.broker_process import odradek_broker

pytestmark = [pytest.mark.client, pytest.mark.timeout(900)]

WITH_RECORDS = ("Keys, headers and nulls.", "Codecs and the other flags.")


@pytest.fixture(scope="module")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker."""
    overrides = {"group.initial.rebalance.delay.ms": "0"}
    with odradek_broker(tmp_path_factory.mktemp("odradek"), overrides=overrides) as broker:
        yield broker.address


def test_our_tools_print_the_same_as_apaches(our_broker: str) -> None:
    output = play_all(our_tool, our_broker, "zz0zz", at_once=AT_ONCE, first=our_tool_here)
    assert output.splitlines() == RECORDED.read_text("utf-8").splitlines()


@pytest.mark.judge
def test_records_of_our_producer_are_read_by_apaches_consumer(
    our_broker: str, apache_tools: ApacheTools
) -> None:
    lines = [line for title in WITH_RECORDS for line in sections()[title]]
    output = play(our_tool, apache_tools, our_broker, lines, "zz1zz")
    assert output == recorded_sections()


@pytest.mark.judge
def test_records_of_apaches_producer_are_read_by_our_consumer(
    our_broker: str, apache_tools: ApacheTools
) -> None:
    lines = [line for title in WITH_RECORDS for line in sections()[title]]
    assert play(apache_tools, our_tool, our_broker, lines, "zz2zz") == recorded_sections()


def recorded_sections() -> str:
    """The recorded sections named in WITH_RECORDS."""
    lines_of_sections = {line for title in WITH_RECORDS for line in sections()[title]}
    is_wanted = False
    lines = []
    for line in RECORDED.read_text("utf-8").splitlines(keepends=True):
        if line.startswith("$ "):
            is_wanted = line[2:].rstrip("\n") in lines_of_sections
        if is_wanted:
            lines.append(line)
    return "".join(lines)
