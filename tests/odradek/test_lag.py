"""`odradek lag` on groups of librdkafka: each verdict as a row, as JSON and on Burrow's pages."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.burrow import burrow
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until

pytestmark = pytest.mark.client

WAIT_S = 60.0
END = 100
FIRST = 10
"""Records that are there before any commit."""


def commit(address: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        place = TopicPartition(group, 0, offset)
        consumer.commit(offsets=[place], asynchronous=False)
    finally:
        consumer.close()


def produce(address: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for _ in range(count):
        producer.produce(topic, b"x")
    assert producer.flush(WAIT_S) == 0


SCRIPTS = {
    # group, which is the name of its topic -> offsets that it commits while END records arrive
    "keeps-up": ("OK", [FIRST, END]),
    "slow": ("WARN", [1, 2, 3, 4]),
    "stalled": ("STALL", [5, 5, 5, 5]),
    "rewound": ("REWIND", [7, 8, 2, 9]),
    "empty": ("OK", []),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a group for each verdict."""
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=overrides) as process:
        address = process.address
        admin = AdminClient({"bootstrap.servers": address})
        # Commits have the broker's time, too: records of the same millisecond come before them.
        by_broker = {"message.timestamp.type": "LogAppendTime"}
        topics = [NewTopic(name, 1, 1, config=by_broker) for name in SCRIPTS]
        for future in admin.create_topics(topics).values():
            future.result(WAIT_S)
        for name, (_, offsets) in SCRIPTS.items():
            produce(address, name, FIRST)
            for number, offset in enumerate(offsets):
                if number > 0:
                    produce(address, name, (END - FIRST) // (len(offsets) - 1))
                commit(address, name, offset)
        yield process


def verdicts(address: str, *words: str) -> dict[str, Any]:
    command = ["--bootstrap-server", address, "--json", "--interval-ms", "1", *words]
    result = our_tool_here("lag", command)
    assert result.errors == ""
    rows = [json.loads(line) for line in result.output.splitlines()]
    return {row["group"]: row for row in rows}


def test_each_group_gets_its_verdict(broker: BrokerProcess) -> None:
    before_ms = time.time() * 1000
    rows = verdicts(broker.address)
    after_ms = time.time() * 1000
    for name, (status, offsets) in SCRIPTS.items():
        if not offsets:
            assert name not in rows, "it has no group"
            continue
        row = rows[name]
        (partition,) = row["partitions"]
        assert row["totallag"] == partition["current_lag"] == END - offsets[-1]
        start, end = partition["start"], partition["end"]
        assert [start["offset"], end["offset"]] == [offsets[0], offsets[-1]]
        assert start["lag"] == FIRST - offsets[0]
        assert end["lag"] == END - offsets[-1]
        stops_at_ms = 2 * end["timestamp"] - start["timestamp"]
        if partition["status"] == "STOP":
            # The window of a group that commits in a hurry is short.
            assert status in ("WARN", "STALL")
            assert after_ms > stops_at_ms
        else:
            assert partition["status"] == status
            assert status in ("OK", "REWIND") or before_ms <= stops_at_ms + 1
        assert row["status"] == {"OK": "OK", "WARN": "WARN"}.get(partition["status"], "ERR")


def test_group_that_has_stopped_is_an_error(broker: BrokerProcess) -> None:
    # Commits of one moment: the last one is longer ago than the window is long.
    words = ["--bootstrap-server", broker.address, "--group", "slow", "--interval-ms", "3600000"]
    result = our_tool_here("lag", [*words, "--check"])
    assert result.exit_code == 3
    header, group, partition = [line.split() for line in result.output.splitlines()]
    assert header[:3] == ["GROUP", "STATUS", "TOTAL-LAG"]
    assert group[:3] == ["slow", "ERR", str(END - 4)]
    assert partition[:4] == ["STOP", "slow", "0", str(END - 4)]
    words[3] = "keeps-up"
    assert our_tool_here("lag", [*words, "--check"]).exit_code == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--group", "absent"], "Consumer group 'absent' does not exist."),
        (["--minutes", "0"], "--minutes: '0' is not a number of at least 1"),
        (["--listen", "x:y"], "--listen: 'x:y' is not HOST:PORT or PORT"),
    ],
)
def test_wrong_option_is_named(broker: BrokerProcess, words: list[str], reason: str) -> None:
    result = our_tool_here("lag", ["--bootstrap-server", broker.address, *words])
    assert result.exit_code != 0
    assert reason in result.errors


def test_pages_are_those_of_burrow(broker: BrokerProcess, tmp_path: Path) -> None:
    command = our_command(
        "lag", ["--bootstrap-server", broker.address, "--listen", "0", "--cluster", "local"]
    )

    def fetched(url: str) -> Any:
        try:
            with urllib.request.urlopen(url, timeout=WAIT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)

    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ours,
        burrow(tmp_path, broker.address) as theirs,
    ):
        try:
            assert ours.stdout is not None
            root = f"http://{ours.stdout.readline().split()[-1]}/v3/kafka"
            group = "slow"

            def has_window() -> bool:
                commit(broker.address, group, 4)
                return bool(theirs.lags(group, group))

            wait_until("a lag of Burrow", has_window)
            their_root = theirs.root
            for path in ("", "/local/consumer", f"/local/consumer/{group}/lag", "/other/consumer"):
                our_page, their_page = fetched(root + path), fetched(their_root + path)
                assert shape(our_page) == shape(their_page), path
                assert our_page["message"] == their_page["message"]
            status = fetched(f"{root}/local/consumer/{group}/lag")["status"]
            burrows = fetched(f"{their_root}/local/consumer/{group}/lag")["status"]
            for name in ("cluster", "group", "partition_count", "totallag"):
                assert status[name] == burrows[name], name
            (ours_partition,), (burrows_partition,) = status["partitions"], burrows["partitions"]
            for name in ("topic", "partition", "end", "current_lag"):
                assert ours_partition[name] == burrows_partition[name], name
        finally:
            ours.terminate()


def shape(value: Any) -> Any:
    """The keys of JSON objects, of the first element of lists."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items()}
        case [first, *_]:
            return [shape(first)]
    return None
