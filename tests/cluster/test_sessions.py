"""Brokers whose ZooKeeper sessions are suspended or expire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.cluster.acknowledged import check, producing
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.zookeeper import ZooKeeperServer, zookeeper_server

TOPIC = "records"
PARTITIONS = 3


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server that the test may kill."""
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def brokers(
    server: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Three brokers on it."""
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(folder, zookeeper_connect=f"{server.address}/kafka") as cluster:
        yield cluster


@pytest.fixture
def patient(
    server: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Three brokers whose sessions outlast a restart of the server on a busy machine."""
    with broker_cluster(
        tmp_path_factory.mktemp("cluster"),
        zookeeper_connect=f"{server.address}/kafka",
        overrides={"zookeeper.session.timeout.ms": "60000"},
    ) as cluster:
        yield cluster


def test_paused_controller_registers_again_and_follows_the_next_one(
    server: ZooKeeperServer, brokers: BrokerCluster
) -> None:
    brokers.create_topic(TOPIC, partitions=PARTITIONS)
    paused = brokers.controller()
    client = KazooClient(f"{server.address}/kafka", timeout=30.0)
    client.start(timeout=60)
    path = f"/brokers/ids/{paused}"
    before = client.get(path)[1].czxid
    with producing(brokers.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(300, timeout_s=90)
        brokers.pause(paused)
        brokers.wait(lambda: client.exists(path) is None, "its session has expired")
        brokers.running.remove(paused)
        brokers.wait_until_complete(TOPIC, isr=2)
        sender.wait_for(300, timeout_s=90)
        brokers.resume(paused)
        brokers.running = sorted([*brokers.running, paused])
        brokers.wait(lambda: client.exists(path) is not None, "it is registered again")
        assert client.get(path)[1].czxid > before
        brokers.wait_for_brokers()
        brokers.wait_until_complete(TOPIC)
        sender.wait_for(300, timeout_s=90)
    assert brokers.controller() != paused
    assert not production.failures
    check(production, brokers.bootstrap)
    assert_identical(brokers, TOPIC)
    client.stop()
    client.close()


def test_records_are_taken_while_zookeeper_is_away_and_topics_afterwards(
    server: ZooKeeperServer, patient: BrokerCluster
) -> None:
    patient.create_topic(TOPIC, partitions=PARTITIONS)
    controller = patient.controller()
    with producing(patient.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(300, timeout_s=90)
        server.kill()
        sender.wait_for(1_000, timeout_s=90)
        server.start()
        sender.wait_for(300, timeout_s=90)
    assert not production.failures
    patient.brokers[controller].process.wait_for_line(
        "the connection to the coordination service is back", timeout_s=60
    )
    patient.create_topic("later", partitions=PARTITIONS)
    check(production, patient.bootstrap)
    assert patient.controller() == controller
    for broker in patient.brokers.values():
        lines = "\n".join(broker.process.lines())
        assert "the connection to the coordination service is lost" in lines
        assert "has expired" not in lines
