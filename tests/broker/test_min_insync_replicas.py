"""min.insync.replicas above the number of brokers: produce and groups work, as at Apache's.

A settings file of a production cluster says min.insync.replicas=2 and replication factors of 3.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.broker.auto_topic_creation import first_use_topic
from odradek.broker.settings.load import make_settings
from odradek.broker.topics import OFFSETS_TOPIC
from tests.scripts.talk import Talk, metadata_of
from tests.support.broker_process import odradek_broker

PATIENCE_S = 60.0
COUNT = 20
FACTORS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


def consume_and_commit(address: str, group: str) -> list[bytes | None]:
    """Every record, as a member of a group that commits at its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["t"])
    values: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < COUNT and time.monotonic() < deadline:
        record = consumer.poll(1.0)
        if record is not None and record.error() is None:
            values.append(record.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


@pytest.mark.client
def test_group_consumes_and_commits_on_a_single_broker(tmp_path: Path) -> None:
    overrides = {**FACTORS, "min.insync.replicas": "2"}
    with odradek_broker(tmp_path, overrides=overrides) as broker:
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
        expected = [b"%d" % number for number in range(COUNT)]
        for value in expected:
            producer.produce("t", value)
        assert producer.flush(PATIENCE_S) == 0
        assert consume_and_commit(broker.address, "g") == expected

        talk = Talk(broker.address)
        partitions = talk.quiet(metadata_of([OFFSETS_TOPIC]), 12).topics[0].partitions
        assert {tuple(partition.replica_nodes) for partition in partitions} == {(0,)}
        talk.close()
        assert broker.stop() == 0
        broker.start()
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
        (committed,) = consumer.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
        assert committed.offset == COUNT
        consumer.close()


@pytest.mark.parametrize(("broker_count", "factor"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_internal_topic_has_its_replication_factor_limited_by_the_live_brokers(
    broker_count: int, factor: int
) -> None:
    settings = make_settings(FACTORS)
    for topic in (OFFSETS_TOPIC, "__transaction_state"):
        made = first_use_topic(topic, settings, broker_count=broker_count)
        assert made.replication_factor == factor
    assert made.config["min.insync.replicas"] == "2"
    assert first_use_topic("t", settings, broker_count=broker_count).replication_factor == -1
