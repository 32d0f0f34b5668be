"""One broker of ours and one of Apache Kafka follow each other, and die in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from odradek.protocol.errors import ErrorCode
from odradek.storage.checkpoints.leader_epochs import EpochEntry, LeaderEpochs
from odradek.storage.producers.producer_snapshot import decode_snapshot
from odradek.storage.producers.producer_state import ProducerEntry
from tests.cluster.acknowledged import check, producing
from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster
from tests.support.features import finalized_features, update_transaction_version
from tests.support.watermarks import watermarks

TOPIC = "records"
PARTITIONS = 2
TRANSACTIONS = 6
RECORDS = 20
APACHE = 1
OURS = 2
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.fetch.backoff.ms": "200",
    "replica.lag.time.max.ms": "10000",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "min.insync.replicas": "1",
    "controlled.shutdown.enable": "false",
}


@contextmanager
def mixed(folder: Path, ensemble: str) -> Iterator[BrokerCluster]:
    """One broker of each kind; Apache's is started first, by the test."""
    connect = f"{ensemble}/{folder.name}"
    cluster = BrokerCluster(
        folder, zookeeper_connect=connect, count=2, overrides=SETTINGS, apache=[APACHE]
    )
    try:
        cluster.start(APACHE)
        yield cluster
    finally:
        cluster.close()


@pytest.mark.judge
def test_each_follows_the_other_and_takes_over_when_it_is_killed(
    tmp_path: Path, ensemble: str
) -> None:
    with mixed(tmp_path, ensemble) as cluster:
        cluster.start(OURS)
        cluster.create_topic(
            TOPIC,
            configs={"segment.bytes": "100000"},
            assignment={0: [APACHE, OURS], 1: [OURS, APACHE]},
        )
        with producing(cluster.bootstrap, TOPIC, PARTITIONS) as (production, sender):
            sender.wait_for(2_000, 90)
            for victim, survivor in ((APACHE, OURS), (OURS, APACHE)):
                cluster.kill(victim)
                cluster.wait_for_leaders(TOPIC, {0: survivor, 1: survivor}, isr=1)
                sender.wait_for(1_000, 90)
                cluster.start(victim)
                cluster.wait_for_leaders(TOPIC, {0: survivor, 1: survivor}, isr=2, of=survivor)
                sender.wait_for(1_000, 90)
        assert not production.failures
        check(production, cluster.bootstrap)
        assert_identical(cluster, TOPIC)


@pytest.mark.judge
def test_feature_that_apache_kafka_3_9_does_not_support_is_not_finalized(
    tmp_path: Path, ensemble: str
) -> None:
    with mixed(tmp_path, ensemble) as cluster:
        cluster.start(OURS)
        cluster.kill(APACHE)
        cluster.wait(lambda: cluster.controller() == OURS, "the controller is ours")
        cluster.start(APACHE)
        cluster.wait_for_brokers()
        error, text = update_transaction_version(cluster.brokers[OURS].address)
        assert error is ErrorCode.INVALID_REQUEST
        assert text is not None
        assert "incompatible versions" in text
        for broker in cluster.brokers.values():
            assert finalized_features(broker.address)[1] == {}


def transactional(cluster: BrokerCluster) -> Producer:
    """A producer that knows its coordinator, while there is one broker only."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "moves", "linger.ms": 0}
    )
    producer.init_transactions(60)
    return producer


def wait_for_markers(cluster: BrokerCluster) -> None:
    """Until the marker of the last transaction is written: its producer does not wait for that."""
    isolated = {"isolation.level": "read_committed", "group.id": "unused"}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **isolated})
    stable_end = TRANSACTIONS * (RECORDS + 1)

    def is_stable() -> bool:
        return watermarks(consumer, TOPIC, 0, timeout_s=30) == (0, stable_end)

    cluster.wait(is_stable, f"the last stable offset is {stable_end}")
    consumer.close()


def producers(folder: Path) -> dict[int, ProducerEntry]:
    """What the newest snapshot of a log says."""
    newest = max(folder.glob("*.snapshot"))
    return {entry.producer_id: entry for entry in decode_snapshot(newest.read_bytes())}


def epochs(folder: Path) -> list[EpochEntry]:
    """Those in which records were written: the stop of the follower begins another one."""
    end_offset = TRANSACTIONS * (RECORDS + 1)
    entries = LeaderEpochs.decode((folder / "leader-epoch-checkpoint").read_bytes()).entries
    return [entry for entry in entries if entry.start_offset < end_offset]


@pytest.mark.judge
def test_follower_has_the_producers_transactions_and_epochs_of_its_leader(
    tmp_path: Path, ensemble: str
) -> None:
    with mixed(tmp_path, ensemble) as cluster:
        producer = transactional(cluster)
        cluster.start(OURS)
        cluster.create_topic(
            TOPIC, configs={"segment.bytes": "10000"}, assignment={0: [APACHE, OURS]}
        )
        for number in range(TRANSACTIONS):
            producer.begin_transaction()
            for _ in range(RECORDS):
                producer.produce(TOPIC, b"x" * 200, partition=0)
            producer.flush(60)
            if number % 2:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
        wait_for_markers(cluster)
        assert_identical(cluster, TOPIC)
        cluster.stop(OURS)
        cluster.stop(APACHE)
        ours, apache = (
            cluster.brokers[broker_id].data / f"{TOPIC}-0" for broker_id in (OURS, APACHE)
        )
        assert producers(ours) == producers(apache)
        assert producers(ours)
        assert epochs(ours) == epochs(apache) != []
        aborted = b"".join(file.read_bytes() for file in sorted(ours.glob("*.txnindex")))
        assert aborted == b"".join(file.read_bytes() for file in sorted(apache.glob("*.txnindex")))
        assert aborted
