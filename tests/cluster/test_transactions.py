"""Transactions are where their partitions are: markers are replicated, and a new leader goes on."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.replicas import assert_identical
from tests.scripts.chapters.groups_stored import OFFSETS_TOPIC
from tests.scripts.talk import Talk
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.transaction_history import (
    GROUP,
    OFFSETS_PARTITIONS,
    PARTITIONS,
    SETTINGS,
    TOPIC,
    TOPIC_CONFIGS,
    TransactionHistory,
    seen,
)

FIRST, SECOND = 1, 2
CLUSTER_SETTINGS = {
    **SETTINGS,
    "offsets.topic.replication.factor": "2",
    "min.insync.replicas": "1",
    "auto.leader.rebalance.enable": "false",
}


def lead_everything(cluster: BrokerCluster, leader: int, other: int) -> None:
    """Make one of two brokers the leader of all partitions, with the other in sync."""
    cluster.stop(other)
    cluster.start(other)
    for topic, count in ((TOPIC, PARTITIONS), (OFFSETS_TOPIC, OFFSETS_PARTITIONS)):
        cluster.wait_until_complete(topic)
        assert {cluster.leader(topic, index) for index in range(count)} == {leader}


def test_new_leader_shows_the_transactions_of_the_killed_one_and_ends_them(
    ensemble: str, tmp_path: Path
) -> None:
    with broker_cluster(
        tmp_path, zookeeper_connect=f"{ensemble}/transactions", count=2, overrides=CLUSTER_SETTINGS
    ) as cluster:
        history = TransactionHistory()
        cluster.create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=2, configs=TOPIC_CONFIGS
        )
        cluster.coordinator(GROUP)
        lead_everything(cluster, SECOND, FIRST)

        talk = Talk(cluster.brokers[SECOND].address)
        history.play(talk)
        before = seen(talk)
        assert before["0 latest 1"] < before["0 latest 0"]
        talk.close()
        cluster.kill(SECOND)
        cluster.wait(
            lambda: all(cluster.leader(TOPIC, index) == FIRST for index in range(PARTITIONS)),
            "the other broker leads",
        )
        talk = Talk(cluster.brokers[FIRST].address)
        assert seen(talk) == before

        history.play(talk)
        cluster.start(SECOND)
        history.end_all(talk)
        after = seen(talk)
        for partition in range(PARTITIONS):
            assert after[f"{partition} latest 1"] == after[f"{partition} latest 0"]
        assert after["offsets, stable: True"] == after["offsets, stable: False"]
        cluster.wait_until_complete(TOPIC)
        cluster.wait_until_complete(OFFSETS_TOPIC)
        assert_identical(cluster, TOPIC)
        assert_identical(cluster, OFFSETS_TOPIC)
        talk.close()
