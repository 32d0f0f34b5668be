"""A batch of one partition is damaged on its leader's disk: other partitions of the same fetches
are read by consumers and copied by followers."""

from __future__ import annotations

from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.replicas import assert_identical
from tests.support.broker_cluster import BrokerCluster, broker_cluster

DAMAGED = "damaged"
SOUND = "sound"
LEADER, FOLLOWER = 1, 2
RECORDS = 20
LENGTH_POSITION = 8
"""Of a batch."""
WAIT_S = 60.0


def send(cluster: BrokerCluster) -> None:
    """Write records that only the leader has."""
    producer = Producer({"bootstrap.servers": cluster.brokers[LEADER].address})
    for topic in (DAMAGED, SOUND):
        for number in range(RECORDS):
            producer.produce(topic, str(number))
    assert producer.flush(WAIT_S) == 0


def damage(cluster: BrokerCluster) -> None:
    """Give the first batch a length that none has."""
    (path,) = (cluster.brokers[LEADER].data / f"{DAMAGED}-0").glob("*.log")
    with path.open("r+b") as file:
        file.seek(LENGTH_POSITION)
        file.write(b"\xff" * 4)


def read(cluster: BrokerCluster) -> list[bytes]:
    """The values of the sound topic, by a consumer that reads both and waits for many bytes."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.brokers[LEADER].address,
            "group.id": "readers",
            "enable.auto.commit": False,
            "fetch.min.bytes": 100_000,
            "fetch.wait.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0) for topic in (DAMAGED, SOUND)])
    values: list[bytes] = []
    deadline = monotonic() + WAIT_S
    while len(values) < RECORDS:
        assert monotonic() < deadline, f"{len(values)} of {RECORDS} records came"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            assert message.topic() == SOUND
            value = message.value()
            assert value is not None
            values.append(value)
    consumer.close()
    return values


def test_damaged_batch_keeps_no_other_partition_from_consumers_and_followers(
    ensemble: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(
        folder,
        zookeeper_connect=f"{ensemble}/{folder.name}",
        count=2,
        overrides={"min.insync.replicas": "1", "offsets.topic.replication.factor": "1"},
    ) as cluster:
        for topic in (DAMAGED, SOUND):
            cluster.create_topic(topic, assignment={0: [LEADER, FOLLOWER]})
        cluster.stop(FOLLOWER)
        send(cluster)
        cluster.stop(LEADER)
        cluster.start(LEADER)
        for topic in (DAMAGED, SOUND):
            cluster.wait_for_leaders(topic, {0: LEADER}, isr=1)
        damage(cluster)
        assert read(cluster) == [b"%d" % number for number in range(RECORDS)]
        cluster.start(FOLLOWER)
        cluster.wait_for_leaders(SOUND, {0: LEADER}, isr=2)
        assert_identical(cluster, SOUND)
        (state,) = cluster.partitions(DAMAGED).values()
        assert state.isr_nodes == [LEADER]
