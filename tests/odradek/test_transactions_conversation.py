"""`odradek transactions` and Apache Kafka's TransactionsCommand print and do the same.

The lines are recorded in `transactions_conversation_3_9_2.txt`, by Apache's tool with Apache's
broker.  The scene of a conversation is used up by it, so each has a broker of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.odradek.comparison import comparable
from tests.odradek.console_tools import ApacheTools
from tests.odradek.transactions_conversation import RECORDED, TOOL, command_lines, our_tool, play
from tests.odradek.transactions_conversation_scene import SETTINGS, make_scene
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker


def test_our_tool_with_our_broker_prints_the_recorded_lines(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        make_scene(broker.address)
        output = play(our_tool, broker.address, command_lines())
    assert comparable(output) == comparable(RECORDED.read_text())


@pytest.mark.judge
def test_apaches_tool_with_our_broker_prints_the_recorded_lines(
    tmp_path: Path, silent_apache_tools: ApacheTools
) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        make_scene(broker.address)
        output = play(
            lambda words: silent_apache_tools(TOOL, words), broker.address, command_lines()
        )
    assert comparable(output) == comparable(RECORDED.read_text())


@pytest.mark.judge
@pytest.mark.slow
def test_our_tool_with_apache_kafka_prints_the_recorded_lines(tmp_path: Path) -> None:
    with apache_node(tmp_path, overrides=SETTINGS) as broker:
        make_scene(broker.address)
        output = play(our_tool, broker.address, command_lines())
    assert comparable(output) == comparable(RECORDED.read_text())


def at(address: str) -> list[str]:
    """The arguments that name a broker."""
    return ["--bootstrap-server", address]


def columns(address: str, words: list[str]) -> list[list[str]]:
    """The rows that a command prints."""
    done = our_tool([*at(address), *words])
    assert (done.exit_code, done.errors) == (0, "")
    return [[value.rstrip() for value in row.split("\t")] for row in done.output.splitlines()[1:]]


def test_forced_termination_aborts_the_transaction_and_fences_its_producer(tmp_path: Path) -> None:
    name = "ongoing-transaction"
    producers = ["describe-producers", "--topic", "orders", "--partition", "1"]
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        make_scene(broker.address)
        (before,) = columns(broker.address, producers)
        columns(broker.address, ["forceTerminateTransaction", "--transactionalId", name])
        (described,) = columns(broker.address, ["describe", "--transactional-id", name])
        (after,) = columns(broker.address, producers)
    assert (before[1], before[5]) == ("0", "0")
    assert (after[1], after[5]) == ("1", "None"), "the marker of the abort fences epoch 0"
    assert (described[3], described[4]) == ("2", "Empty"), "and the id has a new epoch"


def test_forced_termination_of_an_empty_id_fails_with_kafkas_words(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=SETTINGS) as broker:
        done = our_tool([*at(broker.address), "forceTerminateTransaction", "--transactionalId", ""])
    assert (done.exit_code, done.output) == (1, "")
    assert done.errors == (
        "Failed to force terminate transactionalId ``: InitProducerId request for transactionalId "
        "`` failed due to unexpected error. Enable debug logging for additional detail.\n"
    )


@pytest.mark.parametrize(
    "words", [[], ["nope"], ["list"], ["--bootstrap-server", "x", "abort", "--topic", "a"]]
)
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    done = our_tool(words)
    assert (done.exit_code, done.output) == (2, "")
    assert done.errors.startswith("usage: odradek transactions")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--bootstrap-server", "nowhere"], "'nowhere' is not an address of a broker (host:port)"),
        (
            ["--bootstrap-server", "127.0.0.1:1", "--command-config", "/nowhere"],
            "/nowhere cannot be read: No such file or directory",
        ),
    ],
)
def test_connection_that_cannot_be_made_exits_with_1(words: list[str], reason: str) -> None:
    done = our_tool([*words, "list"])
    assert (done.exit_code, done.output, done.errors) == (1, "", f"{reason}\n")
