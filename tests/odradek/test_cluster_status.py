"""`odradek cluster-status`: the screen, and what it shows of a broker of each kind."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.protocol.topic_partition import TopicPartition as Partition
from odradek.tools.cluster_status import command
from odradek.tools.cluster_status.render import (
    BrokerStatus,
    ClusterStatus,
    GroupsStatus,
    LogDirectoryStatus,
    render,
    size_text,
)
from tests.odradek.topics_tools import our_tool
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker
from tests.support.ports import free_port


def run(*arguments: str) -> tuple[int, str]:
    """The exit code, and what was printed."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = command.main(arguments)
    return code, output.getvalue()


def partitions(count: int) -> list[Partition]:
    return [Partition("t", index) for index in range(count)]


def test_screen_names_what_is_wrong() -> None:
    status = ClusterStatus(
        cluster_id="abc",
        controller_id=2,
        brokers=[BrokerStatus(1, "a:1", None, None), BrokerStatus(2, "b:2", "r", "3.9-IV0")],
        missing=[3],
        topics=2,
        partitions=9,
        offline=partitions(1),
        under_min_isr=partitions(7),
        under_replicated=[],
        directories={
            1: [LogDirectoryStatus("/a", None, 4, 3 << 20, 10 << 30, 5 << 30)],
            2: [
                LogDirectoryStatus("/b", "it failed", 0, 0, -1, -1),
                LogDirectoryStatus("/c", None, 0, 0, -1, -1),
            ],
            4: "d:4 does not respond: timed out",
        },
        groups=GroupsStatus(group_count=3, lag=12, unknown=1, leaderless=2),
    )
    assert render(status) == (
        "Cluster: abc\n"
        "Controller: broker 2\n"
        "Brokers: 2\n"
        "  1  a:1\n"
        "  2  b:2  rack r  protocol 3.9-IV0\n"
        "  3  is not registered and has replicas\n"
        "Partitions: 9 of 2 topics\n"
        "  offline: 1 (t-0)\n"
        "  under min.insync.replicas: 7 (t-0, t-1, t-2, t-3, t-4 and 2 more)\n"
        "  under-replicated: 0\n"
        "Log directories:\n"
        "  1  /a  4 replicas, 3.0 MiB; 5.0 GiB of 10.0 GiB free\n"
        "  2  /b  offline: it failed\n"
        "  2  /c  0 replicas, 0 B\n"
        "  4  unknown: d:4 does not respond: timed out\n"
        "Groups: 3, lag 12 in all, without 1 whose offsets are unknown, "
        "without 2 partitions whose end is unknown\n"
    )
    empty = status._replace(
        cluster_id=None, controller_id=-1, under_min_isr="no", groups="not loaded"
    )
    for line in (
        "Cluster: unknown id",
        "Controller: none",
        "  under min.insync.replicas: unknown: no",
        "Groups: unknown: not loaded",
    ):
        assert f"{line}\n" in render(empty)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        ((1 << 20) - 1, "1023.9 KiB"),
        (3 << 39, "1.5 TiB"),
        (1 << 60, "1024.0 PiB"),
    ],
)
def test_size_is_rounded_down(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "bootstrap-server"),
        (["--bootstrap-server", "x"], 1, "'x' is not an address of a broker"),
        (["--bootstrap-server", f"127.0.0.1:{free_port()}"], 1, "cannot be reached"),
        (["--version"], 0, "3.9.2"),
    ],
)
def test_command_line_that_leads_to_no_cluster_is_an_error(
    arguments: list[str], code: int, text: str
) -> None:
    exit_code, printed = run(*arguments)
    assert exit_code == code
    assert text in printed


def fill(address: str) -> None:
    """Two topics, ten records, and a group that has committed the third of them."""
    for words in ("records --partitions 2", "strict --partitions 7 --config min.insync.replicas=2"):
        made = our_tool(["--bootstrap-server", address, "--create", "--topic", *words.split()])
        assert made.exit_code == 0, made
    producer = Producer({"bootstrap.servers": address})
    for number in range(10):
        producer.produce("records", b"%d" % number, partition=1)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("records", 1, 3)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("kind", ["odradek", pytest.param("apache", marks=pytest.mark.judge)])
def test_screen_of_a_lone_broker(kind: str, tmp_path: Path) -> None:
    with apache_node(tmp_path) if kind == "apache" else odradek_broker(tmp_path) as broker:
        fill(broker.address)
        code, printed = run("--bootstrap-server", broker.address)
        screen = re.sub(r"\d+ replicas, \d+ B; .* free", "N replicas", printed)
        screen = re.sub(r"Cluster: \S{22}\n", "Cluster: ID\n", screen)
        screen = re.sub(r"Partitions: \d+ of 3", "Partitions: N of 3", screen)
        screen = screen.replace(str(broker.data), "DATA")
    assert code == 0
    assert screen == (
        "Cluster: ID\n"
        "Controller: broker 0\n"
        "Brokers: 1\n"
        f"  0  {broker.address}  protocol 3.9-IV0\n"
        "Partitions: N of 3 topics\n"
        "  offline: 0\n"
        "  under min.insync.replicas: 7 "
        "(strict-0, strict-1, strict-2, strict-3, strict-4 and 2 more)\n"
        "  under-replicated: 0\n"
        "Log directories:\n"
        "  0  DATA  N replicas\n"
        "Groups: 1, lag 7 in all\n"
    )
