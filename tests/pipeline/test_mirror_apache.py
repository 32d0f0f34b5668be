"""Mirrors from Apache Kafka to our broker, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from tests.pipeline.mirroring import START_MS, Sent, content, create, file, partitions_of, run, send
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker


@pytest.mark.slow
@pytest.mark.judge
def test_records_are_mirrored_from_apache_kafka_and_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    with apache_node(tmp_path / "apache") as apache, odradek_broker(tmp_path / "ours") as ours:
        create(apache.address, "both", 2, {"retention.ms": "-1", "cleanup.policy": "compact"})
        records = [
            Sent(n % 2, b"v%d" % n, b"k%d" % (n % 50), START_MS + n, [("n", b"%d" % n)])
            for n in range(1000)
        ]
        send(apache.address, "both", records)
        group = Consumer({"bootstrap.servers": apache.address, "group.id": "there-1"})
        places = [TopicPartition("both", 0, 123), TopicPartition("both", 1, 500)]
        group.commit(offsets=places, asynchronous=False)
        group.close()
        there = file(apache.address, ours.address, name="there", pattern="both", batch=400)
        run(spark, there, tmp_path)
        assert content(ours.address, "east.both") == content(apache.address, "both")
        assert committed(ours.address, "there-1", "east.both") == [123, 500]

        back = file(ours.address, apache.address, name="back", pattern=".*both", batch=400)
        back = back.replace('"east"', '"ours"').replace('"west"', '"apache"')
        run(spark, back.replace('pattern = "back-.*"', 'pattern = "there-.*"'), tmp_path)
        assert partitions_of(apache.address)["ours.east.both"] == 2
        assert content(apache.address, "ours.east.both") == content(apache.address, "both")
        assert committed(apache.address, "there-1", "ours.east.both") == [123, 500]


def committed(address: str, group: str, topic: str) -> list[int]:
    """Offsets of a group in partitions 0 and 1."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    partitions = consumer.committed(
        [TopicPartition(topic, partition) for partition in (0, 1)], timeout=120
    )
    consumer.close()
    return [partition.offset for partition in partitions]
