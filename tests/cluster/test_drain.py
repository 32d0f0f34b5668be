"""`odradek drain` while records are written, and what it refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.reassign_partitions.cluster import OngoingReassignment, list_reassignments
from odradek.tools.steering.execution import throttled_topics
from tests.cluster.acknowledged import check, producing
from tests.odradek.console_tools import our_command, our_tool_here
from tests.support.apache import ToolResult
from tests.support.broker_cluster import BrokerCluster, broker_cluster

BROKERS = (1, 2, 3, 4)


@pytest.fixture(
    scope="module",
    params=["odradek", pytest.param("apache", marks=[pytest.mark.judge, pytest.mark.slow])],
)
def brokers(
    request: pytest.FixtureRequest, ensemble: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Four brokers in two racks; of Apache's brokers: three of four."""
    folder = tmp_path_factory.mktemp("drain")
    with broker_cluster(
        folder,
        zookeeper_connect=f"{ensemble}/{folder.name}",
        count=4,
        of_broker={number: {"broker.rack": f"rack-{number % 2}"} for number in BROKERS},
        apache=(1, 2, 3) if request.param == "apache" else (),
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster_topic(
    brokers: BrokerCluster, request: pytest.FixtureRequest
) -> Iterator[tuple[BrokerCluster, str]]:
    """12 partitions, of each of which one broker has no replica; deleted after the test."""
    topic = f"orders-{len(request.node.name)}"
    placement = {index: [BROKERS[(index + step) % 4] for step in range(3)] for index in range(12)}
    brokers.create_topic(topic, assignment=placement)
    yield brokers, topic
    words = ["--bootstrap-server", brokers.bootstrap, "--delete", "--topic", "[^_].*"]
    assert our_tool_here("topics", words).exit_code == 0
    brokers.wait(
        lambda: all(
            name.startswith("_") for broker in brokers.running for name in brokers.topics(of=broker)
        ),
        "without topics",
    )


def run(cluster: BrokerCluster, *arguments: str) -> ToolResult:
    return our_tool_here("drain", [*arguments, "--bootstrap-server", cluster.bootstrap])


def held(cluster: BrokerCluster, topic: str, broker: int) -> list[int]:
    """The partitions of which a broker has a replica."""
    return [
        index for index, row in cluster.partitions(topic).items() if broker in row.replica_nodes
    ]


def led(cluster: BrokerCluster, topic: str) -> list[int]:
    return [row.leader_id for row in cluster.partitions(topic).values()]


def test_broker_is_drained_without_a_failed_record(
    cluster_topic: tuple[BrokerCluster, str],
) -> None:
    brokers, topic = cluster_topic
    planned = run(brokers, "3")
    assert planned.exit_code == 0, planned
    assert "Plan: 9 of " in planned.output
    assert len(held(brokers, topic, 3)) == 9, "a dry run changes nothing"
    with producing(brokers.bootstrap, topic, 12) as (production, sender):
        sender.wait_for(100, 60)
        done = run(brokers, "3", "--execute", "--batch", "3", "--throttle", "50000000")
        assert done.exit_code == 0, done
        sender.wait_for(100, 60)
    assert done.output.endswith("Broker 3 leads nothing and holds nothing\n")
    assert not production.failures
    check(production, brokers.bootstrap)
    brokers.wait_until_complete(topic)
    assert held(brokers, topic, 3) == []
    for row in brokers.partitions(topic).values():
        assert len(set(row.replica_nodes)) == 3
        assert sum(broker % 2 for broker in row.replica_nodes) in (1, 2), "both racks"


def test_leaders_only_moves_leaders_and_keeps_replicas(
    cluster_topic: tuple[BrokerCluster, str],
) -> None:
    brokers, topic = cluster_topic
    before = {index: set(row.replica_nodes) for index, row in brokers.partitions(topic).items()}
    done = run(brokers, "--broker", "2", "--leaders-only", "--execute")
    assert done.exit_code == 0, done
    assert done.output.endswith("Broker 2 leads nothing\n")
    brokers.wait(lambda: 2 not in led(brokers, topic), "2 leads nothing")
    after = brokers.partitions(topic)
    assert {index: set(row.replica_nodes) for index, row in after.items()} == before
    assert max(map(led(brokers, topic).count, (1, 3, 4))) <= 6


def test_drain_of_a_dead_broker_gives_its_replicas_to_others(
    cluster_topic: tuple[BrokerCluster, str],
) -> None:
    brokers, topic = cluster_topic
    brokers.kill(4)
    try:
        brokers.wait(lambda: 4 not in led(brokers, topic), "4 leads nothing")
        brokers.wait_for_brokers()
        rebalance = our_tool_here("rebalance", ["--bootstrap-server", brokers.bootstrap])
        assert rebalance.exit_code == 1
        assert "brokers 4 have replicas and are not registered" in rebalance.errors
        done = run(brokers, "4", "--execute")
        assert done.exit_code == 0, done
        brokers.wait_until_complete(topic)
        assert held(brokers, topic, 4) == []
    finally:
        brokers.start(4)
        brokers.wait_for_brokers()


def test_drain_that_the_cluster_cannot_bear_is_refused(
    cluster_topic: tuple[BrokerCluster, str],
) -> None:
    brokers, _ = cluster_topic
    brokers.create_topic("everywhere", assignment={0: [1, 2, 3, 4]})
    brokers.create_topic("alone", assignment={0: [3]}, configs={"min.insync.replicas": "1"})
    brokers.create_topic("strict", assignment={0: [2, 1]})
    for words, text in (
        (["1", "--execute"], "everywhere-0 has 4 replicas, and 3 brokers would be left"),
        (["3", "--leaders-only", "--execute"], "no other replica in sync (alone-0): they have no"),
        (["2", "--leaders-only"], "1 partitions would be under min.insync.replicas without"),
        (["9"], "the cluster has no broker 9"),
    ):
        done = run(brokers, *words)
        assert done.exit_code == 1
        assert text in done.errors
    assert led(brokers, "alone") == [3]


def test_drain_stops_when_a_broker_that_copies_is_killed(
    cluster_topic: tuple[BrokerCluster, str],
) -> None:
    brokers, topic = cluster_topic
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
    for number in range(300):
        producer.produce(topic, b"v" * 10_000, partition=number % 12)
    assert producer.flush(60) == 0
    words = ["3", "--bootstrap-server", brokers.bootstrap, "--execute", "--throttle", "1000"]
    # Much longer than the session of the broker that is killed.
    process = subprocess.Popen(
        our_command("drain", [*words, "--stall-timeout-ms", "20000"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # Broker 3 leads nothing when its replicas move.
        brokers.wait(lambda: len(moving(brokers)) > 2, "replicas move")
        brokers.kill(4)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
        brokers.start(4)
    brokers.wait_for_brokers()
    assert process.returncode == 1
    assert "no progress for 20000 ms of " in errors
    assert "; not registered: 4" in errors
    assert not moving(brokers)
    with Client(brokers.bootstrap) as client:
        assert throttled_topics(client, [topic]) == []


def moving(brokers: BrokerCluster) -> dict[TopicPartition, OngoingReassignment]:
    """The reassignments that copy replicas."""
    with Client(brokers.bootstrap) as client:
        return {key: row for key, row in list_reassignments(client).items() if row.adding}
