"""A consumer reads from the replica in its rack (KIP-392)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.broker_cluster import BrokerCluster, broker_cluster

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
PATIENCE_S = 60.0
COUNT = 200


@pytest.fixture
def racks(ensemble: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers, each in a rack of its own."""
    folder = tmp_path_factory.mktemp("racks")
    with broker_cluster(
        folder,
        zookeeper_connect=f"{ensemble}/{folder.name}",
        overrides={"replica.selector.class": SELECTOR},
        of_broker={broker_id: {"broker.rack": f"rack-{broker_id}"} for broker_id in (1, 2, 3)},
    ) as cluster:
        yield cluster


def produce(cluster: BrokerCluster, first: int) -> None:
    """Produce `COUNT` records."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(first, first + COUNT):
        producer.produce("t", b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def test_consumer_moves_to_the_replica_in_its_rack_and_back_when_it_dies(
    racks: BrokerCluster,
) -> None:
    racks.create_topic("t", assignment={0: [1, 2, 3]})
    produce(racks, 0)
    sources: list[int] = []

    def note(statistics: str) -> None:
        partition = json.loads(statistics)["topics"].get("t", {}).get("partitions", {}).get("0")
        if partition is not None:
            sources.append(partition["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": racks.bootstrap,
            "group.id": "g",
            "client.rack": "rack-3",
            "statistics.interval.ms": 100,
            "stats_cb": note,
            "fetch.wait.max.ms": 100,
            "metadata.max.age.ms": 1_000,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[bytes | None] = []

    def consume_until(count: int, source: int) -> None:
        deadline = monotonic() + PATIENCE_S
        while len(values) < count or sources[-1:] != [source]:
            assert monotonic() < deadline, (len(values), sources[-10:])
            record = consumer.poll(0.1)
            if record is not None and record.error() is None:
                values.append(record.value())

    consume_until(COUNT, 3)
    produce(racks, COUNT)
    consume_until(2 * COUNT, 3)
    racks.kill(3)
    produce(racks, 2 * COUNT)
    consume_until(3 * COUNT, 1)
    assert values == [b"%d" % number for number in range(3 * COUNT)]
    consumer.close()
