"""`odradek rebalance` on clusters of ours and of Apache: planned, executed, stopped."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from confluent_kafka import Producer

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.configs.resources import Resource
from odradek.tools.errors import refused
from odradek.tools.reassign_partitions import throttles
from odradek.tools.reassign_partitions.cluster import list_reassignments
from odradek.tools.steering import execution
from odradek.tools.steering.cluster_model import Load, loads_of, spread
from odradek.tools.steering.cluster_queries import PartitionStatus, partition_statuses, read_cluster
from odradek.tools.steering.execution import throttled_topics
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.compacted import wait_until
from tests.support.zookeeper import zookeeper

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

RECORDS = 60
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "1",
    "replica.fetch.wait.max.ms": "50",
}


@pytest.fixture(
    scope="module",
    name="brokers",
    params=["odradek", pytest.param("apache", marks=[pytest.mark.judge, pytest.mark.slow])],
)
def running_brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Four brokers of ours in two racks, or three of Apache."""
    folder = tmp_path_factory.mktemp("rebalance")
    if request.param == "odradek":
        racks = {number: {"broker.rack": f"rack-{number % 2}"} for number in range(1, 5)}
        with broker_cluster(
            folder, zookeeper_connect=None, count=4, overrides=SETTINGS, of_broker=racks
        ) as brokers:
            yield brokers
    else:
        with (
            zookeeper(folder / "zookeeper") as address,
            broker_cluster(
                folder, zookeeper_connect=address, overrides=SETTINGS, apache=(1, 2, 3)
            ) as brokers,
        ):
            yield brokers


@pytest.fixture
def cluster(brokers: BrokerCluster) -> Iterator[BrokerCluster]:
    """The brokers; topics are deleted after each test."""
    yield brokers
    address = ["--bootstrap-server", brokers.bootstrap]
    run(brokers, "--cancel")
    our_tool_here("topics", [*address, "--delete", "--topic", "[^_].*"])
    wait_until(
        "topics deleted", lambda: not any(brokers.topics(of=broker) for broker in brokers.running)
    )


def fill(cluster: BrokerCluster, topic: str, *, partitions: int, value_bytes: int) -> None:
    """Broker 1 leads all partitions, broker 2 follows, the others have nothing."""
    cluster.create_topic(topic, assignment={index: [1, 2] for index in range(partitions)})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for partition in range(partitions):
        for _ in range(RECORDS):
            producer.produce(topic, b"v" * value_bytes, partition=partition)
    assert producer.flush(60) == 0


def run(cluster: BrokerCluster, *arguments: str) -> str:
    """What the command printed; it has ended well."""
    words = ["--bootstrap-server", cluster.bootstrap, "--sample-ms", "1", *arguments]
    done = our_tool_here("rebalance", words)
    assert done.exit_code == 0, done
    return done.output


def states(cluster: BrokerCluster) -> dict[TopicPartition, PartitionStatus]:
    with Client(cluster.bootstrap) as client:
        return partition_statuses(client.metadata())


def replicas(cluster: BrokerCluster) -> dict[TopicPartition, tuple[int, ...]]:
    return {partition: state.replicas for partition, state in states(cluster).items()}


def spread_of(cluster: BrokerCluster, load: Load) -> float:
    with Client(cluster.bootstrap) as client:
        return spread(loads_of(read_cluster(client).model), load)


def test_skewed_cluster_is_balanced_as_planned(cluster: BrokerCluster) -> None:
    fill(cluster, "orders", partitions=12, value_bytes=200)
    before = replicas(cluster)
    assert spread_of(cluster, Load.REPLICAS) > 0.9
    planned = run(cluster)
    assert replicas(cluster) == before
    plan = dict(re.findall(r"^  orders-(\d+): 1,2 -> ([\d,]+)", planned, re.M))
    assert "spread" in planned
    assert plan
    printed = run(cluster, "--execute", "--batch", "3", "--throttle", "100000000")
    assert planned.splitlines()[0] in printed
    assert f"{len(plan)} of {len(plan)} partitions done" in printed
    for index, target in plan.items():
        assert replicas(cluster)[TopicPartition("orders", int(index))] == tuple(
            map(int, target.split(","))
        )
    for load in (Load.REPLICAS, Load.LEADERS, Load.DISK):
        assert spread_of(cluster, load) < 0.1, (load, printed)
    for state in states(cluster).values():
        assert state.leader == state.replicas[0]
        assert set(state.isr) == set(state.replicas)
    if len(cluster.brokers) == 4:
        assert all(sum(state.replicas) % 2 for state in states(cluster).values()), "two racks"
    assert_no_throttle(cluster)


def assert_no_throttle(cluster: BrokerCluster) -> None:
    with Client(cluster.bootstrap) as client:
        names = sorted({partition.topic for partition in states(cluster)})
        assert throttled_topics(client, names) == []
        assert not list_reassignments(client)


def interrupt(cluster: BrokerCluster, topic: str, number: int, is_seen: Callable[[], bool]) -> int:
    """Start a slow run in a process, and send it a signal once something is seen; its exit code."""
    words = ["--bootstrap-server", cluster.bootstrap, "--sample-ms", "1", "--execute"]
    words += ["--throttle", "1000", "--exclude-topics", f"(?!{topic}$).*"]
    process = subprocess.Popen(our_command("rebalance", words), stdout=subprocess.PIPE)
    try:
        wait_until("replicas move", is_seen, timeout_s=60)
        process.send_signal(number)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    return process.returncode


def test_stopped_run_leaves_nothing_behind_and_a_killed_one_goes_on(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic = f"slow-{tmp_path.name}"
    fill(cluster, topic, partitions=12, value_bytes=15_000)

    def is_moving() -> bool:
        with Client(cluster.bootstrap) as client:
            return bool(list_reassignments(client))

    assert interrupt(cluster, topic, signal.SIGTERM, is_moving) == 130
    assert not is_moving()
    assert_no_throttle(cluster)
    assert len(set(replicas(cluster)[TopicPartition(topic, 0)])) == 2
    assert interrupt(cluster, topic, signal.SIGKILL, is_moving) == -signal.SIGKILL
    assert is_moving()
    assert f"Under way: {topic}-" in run(cluster)
    printed = run(cluster, "--execute", "--throttle", "100000000")
    assert "partitions done" in printed
    assert spread_of(cluster, Load.REPLICAS) < 0.1
    assert_no_throttle(cluster)


def test_cancel_ends_the_moves_of_a_killed_run(cluster: BrokerCluster, tmp_path: Path) -> None:
    topic = f"killed-{tmp_path.name}"
    fill(cluster, topic, partitions=12, value_bytes=15_000)
    before = replicas(cluster)

    def is_throttled() -> bool:
        with Client(cluster.bootstrap) as client:
            return topic in throttled_topics(client, [topic]) and bool(list_reassignments(client))

    interrupt(cluster, topic, signal.SIGKILL, is_throttled)
    printed = run(cluster, "--cancel")
    assert printed.startswith("Cancelled: ")
    assert printed.endswith("Throttles deleted\n")
    assert_no_throttle(cluster)
    for partition, placed in replicas(cluster).items():
        # Of a batch that moved, some may be at their targets.
        assert len({*placed}) == len(before[partition]), partition
    assert run(cluster, "--cancel").startswith("No partition reassignments found.\n")
    run(cluster, "--execute")


def test_broker_that_refuses_keeps_no_throttle_of_another_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def alter_or_refuse(_: Client, resource: Resource, *_changes: object) -> None:
        asked.append(resource.name)
        if resource.name == "1":
            raise refused(ErrorCode.UNKNOWN_SERVER_ERROR)

    monkeypatch.setattr(throttles, "alter", alter_or_refuse)
    brokers = [MetadataResponseBroker(node_id=number, host="h", port=1) for number in range(3)]
    client = create_autospec(Client, instance=True)
    client.metadata.return_value = MetadataResponse(brokers=brokers, topics=[])
    execution.remove_throttles(client, [])
    assert asked == ["0", "1", "2"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("The throttle of broker 1 is left: UNKNOWN_SERVER_ERROR: ")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--goals", "cpu"], 2, "--goals: 'cpu' is not one of replicas, disk"),
        (["--goals", ""], 2, "--goals: '' is not one of replicas, disk"),
        (["--exclude-topics", "("], 2, "--exclude-topics: '(' is not a pattern"),
        (["--batch", "0"], 2, "--batch: '0' is not a number of at least 1"),
        (["--dry-run", "--execute"], 2, "--dry-run and --execute exclude each other"),
    ],
)
def test_invalid_command_line_changes_nothing(words: list[str], code: int, text: str) -> None:
    done = our_tool_here("rebalance", ["--bootstrap-server", "127.0.0.1:1", *words])
    assert done.exit_code == code
    assert text in done.errors
