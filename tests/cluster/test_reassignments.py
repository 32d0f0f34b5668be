"""Replicas move and leaders are elected while clients work: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.cluster.acknowledged import check, producing
from tests.cluster.reassigning import ask, move, wait_for_moves
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster, broker_cluster

TOPIC = "moved"
BEFORE = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
AFTER = {0: [3, 1], 1: [1, 2], 2: [2, 3]}
GROUPS = 9
"""Their coordinators are all brokers."""
ONE_IN_SYNC = {"min.insync.replicas": "1"}


def wait_until_led_by_others(cluster: BrokerCluster) -> None:
    """Until every partition has a leader that runs."""
    cluster.wait(
        lambda: all(
            state.leader_id in cluster.running for state in cluster.partitions(TOPIC).values()
        ),
        "other leaders",
    )


def check_folders(cluster: BrokerCluster, replicas: Mapping[int, Sequence[int]]) -> None:
    """Until no broker has the log of a replica that was taken from it."""
    for index, kept in replicas.items():
        for broker_id in cluster.running:
            folder = cluster.brokers[broker_id].data / f"{TOPIC}-{index}"
            is_kept = broker_id in kept
            cluster.wait(
                partial(lambda folder, is_kept: folder.exists() == is_kept, folder, is_kept),
                f"{folder} {'kept' if is_kept else 'removed'}",
            )


def committed(consumers: Sequence[Consumer]) -> list[int]:
    """The committed offsets of the topic, by group and partition; -1001 where there is none."""
    partitions = [TopicPartition(TOPIC, index) for index in BEFORE]
    return [
        stored.offset
        for consumer in consumers
        for stored in consumer.committed(partitions, timeout=60)
    ]


def test_all_replicas_move_while_a_producer_sends(cluster: BrokerCluster) -> None:
    """Committed offsets stay, and go with the topic: of groups at every broker."""
    cluster.create_topic(TOPIC, assignment=BEFORE)
    consumers = [
        Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"group-{number}"})
        for number in range(GROUPS)
    ]
    for consumer in consumers:
        offsets = [TopicPartition(TOPIC, index, 7) for index in BEFORE]
        consumer.commit(offsets=offsets, asynchronous=False)
    with producing(cluster.bootstrap, TOPIC, 3) as (production, sender):
        sender.wait_for(500, timeout_s=90)
        move(cluster, TOPIC, AFTER)
        wait_for_moves(cluster, TOPIC, AFTER)
        sender.wait_for(500, timeout_s=90)
        move(cluster, TOPIC, {0: [2], 1: [3, 1, 2]})
        wait_for_moves(cluster, TOPIC, {0: [2], 1: [1, 2, 3], 2: [2, 3]})
        move(cluster, TOPIC, BEFORE)
        wait_for_moves(cluster, TOPIC, BEFORE)
        sender.wait_for(500, timeout_s=90)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)
    check_folders(cluster, BEFORE)
    assert committed(consumers) == [7] * len(BEFORE) * GROUPS
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(60)
    cluster.wait(lambda: set(committed(consumers)) == {OFFSET_INVALID}, "offsets deleted")
    for consumer in consumers:
        consumer.close()


def test_moves_survive_the_death_of_the_controller(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, assignment=BEFORE, configs=ONE_IN_SYNC)
    with producing(cluster.bootstrap, TOPIC, 3) as (production, sender):
        sender.wait_for(500, timeout_s=90)
        killed = cluster.controller()
        move(cluster, TOPIC, AFTER)
        cluster.kill(killed)
        cluster.wait(lambda: cluster.controller() in cluster.running, "another controller")
        cluster.start(killed)
        wait_for_moves(cluster, TOPIC, AFTER)
        sender.wait_for(500, timeout_s=90)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)


def test_cancelled_moves_leave_the_replicas_as_they_were(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, assignment=BEFORE, configs=ONE_IN_SYNC)
    # Broker 1 is the one that is asked who the controller is.
    paused = 3 if cluster.controller() != 3 else 2
    targets = {index: [paused] for index, replicas in BEFORE.items() if paused not in replicas}
    with producing(cluster.bootstrap, TOPIC, 3) as (production, sender):
        sender.wait_for(300, timeout_s=90)
        cluster.pause(paused)
        move(cluster, TOPIC, targets)
        move(cluster, TOPIC, dict.fromkeys(targets))
        cluster.resume(paused)
        wait_for_moves(cluster, TOPIC, BEFORE)
        sender.wait_for(300, timeout_s=90)
    assert not production.failures
    check(production, cluster.bootstrap)
    assert_identical(cluster, TOPIC)
    check_folders(cluster, BEFORE)


def test_preferred_leaders_are_elected_when_asked_for(cluster: BrokerCluster) -> None:
    cluster.create_topic(TOPIC, assignment=BEFORE)
    cluster.stop(2)
    wait_until_led_by_others(cluster)
    cluster.start(2)
    cluster.wait_until_complete(TOPIC)
    request = ElectLeadersRequest(election_type=0, topic_partitions=None)
    cluster.wait(lambda: _elected(ask(cluster, request, 2)), "elected")
    for index, replicas in BEFORE.items():
        cluster.wait(
            partial(
                lambda index, leader: cluster.leader(TOPIC, index) == leader, index, replicas[0]
            ),
            f"broker {replicas[0]} leading partition {index}",
        )


def _elected(response: Any) -> bool:
    return not any(
        row.error_code
        for topic in response.replica_election_results
        for row in topic.partition_result
    )


@pytest.fixture
def balancing(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers whose controller balances leaders every other second."""
    folder = tmp_path_factory.mktemp("balancing")
    settings = {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "2",
        "leader.imbalance.per.broker.percentage": "0",
    }
    connect = f"{ensemble}/{folder.name}"
    with broker_cluster(folder, zookeeper_connect=connect, overrides=settings) as cluster:
        yield cluster


def test_leaders_go_back_to_a_broker_that_came_back(balancing: BrokerCluster) -> None:
    cluster = balancing
    cluster.create_topic(TOPIC, assignment=BEFORE)
    victim = next(broker_id for broker_id in cluster.running if broker_id != cluster.controller())
    cluster.kill(victim)
    wait_until_led_by_others(cluster)
    cluster.start(victim)
    cluster.wait(
        lambda: all(
            state.leader_id == BEFORE[index][0]
            for index, state in cluster.partitions(TOPIC).items()
        ),
        "every partition led by its preferred leader",
    )
