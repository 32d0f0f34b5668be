"""Brokers die while clients work: nothing acknowledged is lost, doubled or out of order."""

from __future__ import annotations

import pytest

from tests.cluster.acknowledged import check, producing
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster

TOPIC = "records"
PARTITIONS = 3


def test_records_are_on_every_replica(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(2_000, timeout_s=90)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)


@pytest.mark.parametrize(
    "victim", ["leader", pytest.param("follower", marks=pytest.mark.slow), "controller"]
)
def test_nothing_is_lost_when_a_broker_is_killed(cluster: BrokerCluster, victim: str) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        sender.wait_for(500, timeout_s=90)
        leader = cluster.leader(TOPIC)
        controller = cluster.controller()
        killed = {
            "leader": leader,
            "follower": next(broker_id for broker_id in cluster.running if broker_id != leader),
            "controller": controller,
        }[victim]
        cluster.kill(killed)
        cluster.wait_until_complete(TOPIC, isr=2)
        sender.wait_for(500, timeout_s=90)
        cluster.start(killed)
        cluster.wait_until_complete(TOPIC)
        sender.wait_for(500, timeout_s=90)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)


@pytest.mark.slow
def test_every_broker_is_killed_in_turn(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        for _ in range(2):
            for broker_id in list(cluster.brokers):
                sender.wait_for(200, timeout_s=120)
                cluster.kill(broker_id)
                sender.wait_for(200, timeout_s=120)
                cluster.start(broker_id)
                cluster.wait_until_complete(TOPIC)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)


def test_rolling_restart_fails_no_produce(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
        for broker_id in list(cluster.brokers):
            sender.wait_for(200, timeout_s=120)
            cluster.stop(broker_id)
            sender.wait_for(200, timeout_s=120)
            cluster.start(broker_id)
            cluster.wait_until_complete(TOPIC)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)
