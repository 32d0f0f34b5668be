"""A broker comes back with a shorter log than it had acknowledged, as after a power cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.acknowledged import check, producing
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import TREE_BROKER, BrokerCluster, broker_cluster

TOPIC = "records"
PARTITIONS = 3
LONG_SESSION = {"zookeeper.session.timeout.ms": "10000"}
"""A broker that is started again at once runs before its former session ends."""


@pytest.fixture
def long_session_cluster(
    ensemble: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Three brokers whose former sessions have not ended when they are started again at once."""
    folder = tmp_path_factory.mktemp("cluster")
    connect = f"{ensemble}/{folder.name}"
    with broker_cluster(folder, zookeeper_connect=connect, overrides=LONG_SESSION) as cluster:
        yield cluster


def cut_logs(data: Path) -> int:
    """Cut the last segment of each partition of the topic in half, and return the bytes cut."""
    assert not (data / ".kafka_cleanshutdown").exists()
    total = 0
    for partition in range(PARTITIONS):
        log = max((data / f"{TOPIC}-{partition}").glob("*.log"))
        size = log.stat().st_size
        with open(log, "r+b") as file:
            file.truncate(size // 2)
        total += size - size // 2
    return total


def kill_and_cut(cluster: BrokerCluster, broker_id: int) -> None:
    """End a broker, and lose the end of its logs."""
    cluster.kill(broker_id)
    assert cut_logs(cluster.brokers[broker_id].data) > 0


def finish(cluster: BrokerCluster) -> None:
    """Wait until all replicas are in sync and equal."""
    cluster.wait_until_complete(TOPIC)
    assert_identical(cluster, TOPIC)


def test_leader_with_a_shorter_log_follows_after_its_session_has_ended(
    cluster: BrokerCluster,
) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(2_000, timeout_s=90)
    leader = cluster.leader(TOPIC)
    kill_and_cut(cluster, leader)
    cluster.wait_until_complete(TOPIC, isr=2)
    cluster.start(leader)
    finish(cluster)
    check(production, cluster.bootstrap)


@pytest.mark.parametrize("victim", ["leader", "controller"])
def test_leader_with_a_shorter_log_that_starts_before_its_session_ends_does_not_lead_with_it(
    long_session_cluster: BrokerCluster, victim: str
) -> None:
    cluster = long_session_cluster
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(2_000, timeout_s=90)
    bounced = cluster.controller()
    if victim == "leader":
        leaders = {partition.leader_id for partition in cluster.partitions(TOPIC).values()}
        bounced = next(broker_id for broker_id in sorted(leaders) if broker_id != bounced)
    kill_and_cut(cluster, bounced)
    cluster.start(bounced)
    finish(cluster)
    check(production, cluster.bootstrap)


def test_follower_with_a_shorter_log_is_not_elected_when_the_leader_dies_at_its_return(
    long_session_cluster: BrokerCluster,
) -> None:
    cluster = long_session_cluster
    cluster.create_topic(TOPIC, assignment={number: [1, 2, 3] for number in range(PARTITIONS)})
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(2_000, timeout_s=90)
    kill_and_cut(cluster, 2)
    cluster.start(2)
    cluster.kill(1)
    cluster.wait_until_complete(TOPIC, isr=2)
    cluster.start(1)
    finish(cluster)
    check(production, cluster.bootstrap)


def test_broker_with_the_tree_and_a_shorter_log_does_not_lead_with_it(tmp_path: Path) -> None:
    with broker_cluster(tmp_path, zookeeper_connect=None) as cluster:
        cluster.create_topic(TOPIC, assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
            sender.wait_for(2_000, timeout_s=90)
        # No other broker could take over while its tree is away.
        kill_and_cut(cluster, TREE_BROKER)
        cluster.start(TREE_BROKER)
        finish(cluster)
        check(production, cluster.bootstrap)
