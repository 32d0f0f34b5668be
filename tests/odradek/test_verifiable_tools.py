"""The verifiable tools and e2e-latency as processes: signals, full reports, errors."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.tools.end_to_end_latency import report
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client

WAIT_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker."""
    overrides = {"group.initial.rebalance.delay.ms": "0", "num.partitions": "3"}
    with odradek_broker(tmp_path_factory.mktemp("odradek"), overrides=overrides) as process:
        yield process.address


def start(name: str, *words: str) -> subprocess.Popen[str]:
    """Start one of our tools."""
    return subprocess.Popen(our_command(name, words), stdout=subprocess.PIPE, text=True)


def events_until(child: subprocess.Popen[str], name: str, count: int) -> list[dict[str, Any]]:
    """The events up to the n-th one of a name."""
    assert child.stdout is not None
    events: list[dict[str, Any]] = []
    while sum(event["name"] == name for event in events) < count:
        line = child.stdout.readline()
        assert line, f"the tool ended after {events}"
        events.append(json.loads(line))
    return events


def stop(child: subprocess.Popen[str], number: signal.Signals) -> list[dict[str, Any]]:
    """End a tool by a signal: the events that it still reports.

    Popen.communicate would not see what readline has taken into its buffer.
    """
    assert child.stdout is not None
    child.send_signal(number)
    with child.stdout:
        events = [json.loads(line) for line in child.stdout]
    assert child.wait(WAIT_S) == 128 + number
    return events


def test_tools_that_are_stopped_report_all_that_was_sent_and_read(broker: str) -> None:
    server = ("--bootstrap-server", broker, "--topic", "integers")
    producer = start("verifiable-producer", *server, "--throughput", "500")
    sent = events_until(producer, "producer_send_success", 300)
    sent += stop(producer, signal.SIGTERM)
    acked = [event for event in sent if event["name"] == "producer_send_success"]
    assert [event["name"] for event in sent[-2:]] == ["shutdown_complete", "tool_data"]
    assert sent[-1]["sent"] == sent[-1]["acked"] == len(acked)
    assert sorted(int(event["value"]) for event in acked) == list(range(len(acked)))

    words = ("--group-id", "readers", "--verbose", "--group-protocol", "classic")
    consumer = start("verifiable-consumer", *server, *words)
    read: list[dict[str, Any]] = []
    while sum(event["name"] == "record_data" for event in read) < len(acked):
        read += events_until(consumer, "offsets_committed", 1)
    last = [event["name"] for event in stop(consumer, signal.SIGINT)]
    assert last[-2:] == ["partitions_revoked", "shutdown_complete"]

    def places(events: list[dict[str, Any]], name: str) -> list[tuple[int, int, str]]:
        rows = [event for event in events if event["name"] == name]
        return sorted((row["partition"], row["offset"], row["value"]) for row in rows)

    assert places(read, "record_data") == places(acked, "producer_send_success")
    committed: dict[int, int] = {}
    for event in read:
        for row in event.get("offsets", []):
            committed[row["partition"]] = row["offset"]
    ends: dict[int, int] = {}
    for partition, offset, _ in places(acked, "producer_send_success"):
        ends[partition] = offset + 1
    assert committed == ends


def test_consumer_of_the_new_protocol_reads_what_the_classic_one_reads(broker: str) -> None:
    server = ["--bootstrap-server", broker, "--topic", "new"]
    our_tool_here("verifiable-producer", [*server, "--max-messages", "9"])
    words = ["--group-id", "new-readers", "--group-protocol", "consumer", "--max-messages", "9"]
    result = our_tool_here("verifiable-consumer", [*server, *words])
    events = [json.loads(line) for line in result.output.splitlines()]
    counts = [
        row["count"]
        for event in events
        if event["name"] == "records_consumed"
        for row in event["partitions"]
    ]
    assert sum(counts) == 9, result
    assert events[-1]["name"] == "shutdown_complete"


def test_consumer_without_offset_and_without_reset_ends_with_an_error(broker: str) -> None:
    server = ["--bootstrap-server", broker, "--topic", "none"]
    our_tool_here("verifiable-producer", [*server, "--max-messages", "1"])
    words = [*server, "--group-id", "lost", "--reset-policy", "none"]
    result = our_tool_here("verifiable-consumer", words)
    assert "NoOffsetForPartitionException" in result.errors
    assert json.loads(result.output.splitlines()[-1])["name"] == "shutdown_complete"


@pytest.mark.parametrize(
    ("topic", "group", "reason"),
    [
        ("", "g", "Topic collection to subscribe to cannot contain null or empty topic"),
        ("t", "", "InvalidGroupIdException: The configured groupId is invalid."),
    ],
)
def test_consumer_of_nothing_ends_with_an_error_as_in_kafka(
    broker: str, topic: str, group: str, reason: str
) -> None:
    words = ["--bootstrap-server", broker, "--topic", topic, "--group-id", group]
    result = our_tool_here("verifiable-consumer", words)
    assert result.exit_code == 0
    assert reason in result.errors.splitlines()[-1]
    names = [json.loads(line)["name"] for line in result.output.splitlines()]
    assert names == ["startup_complete", "shutdown_complete"]


def test_percentiles_of_latencies_are_whole_milliseconds() -> None:
    lines = report([number * 1_000_000 + 999 for number in range(1000, 0, -1)])
    assert lines[0].startswith("Avg latency: 500.50")
    assert lines[1] == "Percentiles: 50th = 501, 99th = 991, 99.9th = 1000"
