"""Three brokers, of Apache Kafka and of Odradek, and the way from one to the other.

The recipe of docs/migration.md, step by step.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.cluster.acknowledged import check, producing
from tests.cluster.reassigning import ask, move, wait_for_moves
from tests.cluster.replicas import assert_identical
from tests.support.apache_process import ApacheProcess
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.judge, pytest.mark.slow]

TOPIC = "moved"
REPLICAS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
LEADERS = {0: 1, 1: 2, 2: 3}
BROKERS = (1, 2, 3)
SETTINGS = {"replica.fetch.backoff.ms": "200", "auto.leader.rebalance.enable": "false"}
CONTROLLERS_MAX = 20
RECORDS = 1_000
WAIT_S = 180


@pytest.fixture(params=[(1, 2), (1,)], ids=["two of Apache", "one of Apache"])
def apache(request: pytest.FixtureRequest) -> Collection[int]:
    broker_ids: Collection[int] = request.param
    return broker_ids


@pytest.fixture
def mixed(tmp_path: Path, ensemble: str, apache: Collection[int]) -> Iterator[BrokerCluster]:
    """Apache's broker 1 is the first controller."""
    connect = f"{ensemble}/{tmp_path.name}"
    with broker_cluster(
        tmp_path, zookeeper_connect=connect, overrides=SETTINGS, apache=apache, controller=1
    ) as cluster:
        yield cluster


def elect_preferred(cluster: BrokerCluster) -> None:
    """Until each broker leads what it is the first replica of."""
    ask(cluster, ElectLeadersRequest(election_type=0, topic_partitions=None), 2)
    cluster.wait_for_leaders(TOPIC, LEADERS, isr=3)


def command(
    cluster: BrokerCluster, broker_id: int, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run one of our commands, which asks a broker."""
    name, *options = words
    program = [sys.executable, "-I", "-m", "odradek", name]
    return subprocess.run(
        [*program, "--bootstrap-server", cluster.brokers[broker_id].address, *options],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def finish_replacement(cluster: BrokerCluster, broker_id: int) -> None:
    """The commands of the recipe, at another broker than the one that was replaced."""
    other = next(other_id for other_id in BROKERS if other_id != broker_id)

    def is_replicated() -> bool:
        done = command(cluster, other, "topics", "--describe", "--under-replicated-partitions")
        return not done.returncode and not done.stdout.strip()

    cluster.wait(is_replicated, "nothing under-replicated", timeout_s=WAIT_S)
    kinds = ("--election-type", "preferred", "--all-topic-partitions")
    done = command(cluster, other, "leader-election", *kinds)
    assert not done.returncode, done
    cluster.wait_for_leaders(TOPIC, LEADERS, isr=3)


def test_brokers_of_both_kinds_lead_follow_and_control_while_each_is_killed(
    mixed: BrokerCluster, apache: Collection[int]
) -> None:
    cluster = mixed
    cluster.create_topic(TOPIC, assignment=REPLICAS, configs={"segment.bytes": "200000"})
    controllers = {cluster.controller()}
    with producing(cluster.bootstrap, TOPIC, 3) as (production, sender):
        for victim in BROKERS:
            sender.wait_for(RECORDS, WAIT_S)
            cluster.kill(victim)
            cluster.wait_until_complete(TOPIC, isr=2)
            sender.wait_for(RECORDS, WAIT_S)
            cluster.start(victim)
            cluster.wait_for_brokers()
            cluster.wait_until_complete(TOPIC)
            controllers.add(cluster.controller())
        elect_preferred(cluster)
        sender.wait_for(RECORDS, WAIT_S)
        # Which broker is the next controller, the fastest decides.
        for _ in range(CONTROLLERS_MAX):
            if {controller in apache for controller in controllers} == {True, False}:
                break
            former = cluster.controller()
            cluster.stop(former)
            cluster.wait(lambda: cluster.controller() in cluster.running, "another controller")
            controllers.add(cluster.controller())
            cluster.start(former)
            cluster.wait_for_brokers()
            cluster.wait_until_complete(TOPIC)
        sender.wait_for(RECORDS, WAIT_S)
    assert {controller in apache for controller in controllers} == {True, False}, controllers
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)


def test_replicas_move_between_brokers_of_both_kinds(mixed: BrokerCluster) -> None:
    cluster = mixed
    first = {0: [1], 1: [2], 2: [3]}
    second = {0: [3, 2], 1: [1, 3], 2: [2, 1]}
    cluster.create_topic(TOPIC, assignment=first, configs={"min.insync.replicas": "1"})
    with producing(cluster.bootstrap, TOPIC, 3) as (production, sender):
        for targets in (second, REPLICAS, first):
            sender.wait_for(RECORDS, WAIT_S)
            move(cluster, TOPIC, targets)
            wait_for_moves(cluster, TOPIC, targets)
        sender.wait_for(RECORDS, WAIT_S)
    assert not production.failures
    check(production, cluster.bootstrap)


class Reader:
    """A member of a group that goes on over all replacements."""

    def __init__(self, bootstrap: str) -> None:
        self.numbers: dict[int, set[int]] = {partition: set() for partition in REPLICAS}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([TOPIC])

    def has_read(self, expected: dict[int, set[int]]) -> bool:
        """Read on, commit, and look whether everything expected has been read."""
        read = False
        for message in self._consumer.consume(5_000, timeout=0.5):
            error, partition, value = message.error(), message.partition(), message.value()
            if error is not None:
                assert error.retriable(), error
                continue
            assert partition is not None
            assert value is not None
            self.numbers[partition].add(int(value))
            read = True
        if read:
            self._consumer.commit(asynchronous=True)
        return all(numbers <= self.numbers[partition] for partition, numbers in expected.items())

    def close(self) -> None:
        self._consumer.close()


def test_all_brokers_are_replaced_one_by_one_and_back(tmp_path: Path, ensemble: str) -> None:
    connect = f"{ensemble}/{tmp_path.name}"
    with broker_cluster(
        tmp_path, zookeeper_connect=connect, overrides=SETTINGS, apache=BROKERS
    ) as cluster:
        cluster.create_topic(TOPIC, assignment=REPLICAS, configs={"segment.bytes": "200000"})
        reader = Reader(cluster.bootstrap)
        with producing(cluster.bootstrap, TOPIC, 3) as (production, sender):
            for kind in (BrokerProcess, ApacheProcess):
                for broker_id in BROKERS:
                    sender.wait_for(RECORDS, WAIT_S)
                    cluster.replace(broker_id, kind)
                    finish_replacement(cluster, broker_id)
                    sender.wait_for(RECORDS, WAIT_S)
                    numbers = {
                        partition: set(sent) for partition, sent in production.acknowledged.items()
                    }
                    cluster.wait(partial(reader.has_read, numbers), "all read")
        assert not production.failures
        check(production, cluster.bootstrap)
        assert_identical(cluster, TOPIC)
        reader.close()
