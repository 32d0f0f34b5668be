"""Pipeline files run against our broker, in this process and by the command."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from pipeline.jobs import run
from pipeline.spec.load import parse
from tests.support.broker_process import BrokerProcess

READ_TIMEOUT_S = 30.0

FILE = """\
[pipeline]
name = "payments"
checkpoint = "state"
mode = "available_now"

[clusters.main]
bootstrap_servers = "{address}"

[sources.payments]
kind = "kafka"
cluster = "main"
subscribe = ["payments"]

[steps.parsed]
kind = "parse"
from = "payments"
format = "json"
schema = "merchant STRING, amount DOUBLE"
rejects = "payments-rejected"
rejects_cluster = "main"

[steps.large]
kind = "filter"
from = "parsed"
where = "amount >= 10"

[sinks.out]
kind = "kafka"
from = "large"
cluster = "main"
topic = "large-payments"
key = "merchant"

[sinks.landed]
kind = "files"
from = "parsed"
path = "landed"
format = "parquet"
"""


def produce(address: str, topic: str, values: list[bytes]) -> None:
    """Records without keys."""
    producer = Producer({"bootstrap.servers": address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(READ_TIMEOUT_S) == 0


def consume(
    address: str, topic: str, count: int
) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    """Key, value and headers of the first records."""
    settings = {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[bytes | None, bytes | None, dict[str, bytes]]] = []
    deadline_s = monotonic() + READ_TIMEOUT_S
    while len(found) < count and monotonic() < deadline_s:
        one = consumer.poll(0.5)
        # Before the topic's leader is known the library hands out an error.
        if one is not None and one.error() is None:
            found.append((one.key(), one.value(), dict(one.headers() or [])))
    consumer.close()
    return found


def payment(number: int) -> bytes:
    """One record."""
    return json.dumps({"merchant": f"m{number % 3}", "amount": float(number)}).encode()


def run_file(spark: SparkSession, text: str, folder: Path) -> None:
    """Run a pipeline to its end."""
    pipeline = parse(text, folder / "my.toml")
    built = run.build(spark, pipeline, folder)
    run.wait(pipeline, run.start_stream(pipeline, built, folder))


def test_records_go_through_and_what_does_not_parse_goes_to_the_dead_letters(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    text = FILE.format(address=broker.address)
    produce(broker.address, "payments", [payment(number) for number in range(20)] + [b"garbage"])
    run_file(spark, text, tmp_path)
    produce(broker.address, "payments", [payment(number) for number in range(20, 30)])
    run_file(spark, text, tmp_path)

    large = consume(broker.address, "large-payments", 20)
    amounts = sorted(json.loads(value or b"")["amount"] for _, value, _ in large)
    assert amounts == [float(number) for number in range(10, 30)]
    assert all(key == json.loads(value or b"")["merchant"].encode() for key, value, _ in large)
    landed = spark.read.parquet(str(tmp_path / "landed"))
    assert sorted(row.amount for row in landed.collect()) == [float(n) for n in range(30)]
    ((_, value, headers),) = consume(broker.address, "payments-rejected", 1)
    assert value == b"garbage"
    assert headers["reason"] == b"not JSON"
    assert headers["topic"] == b"payments"
    assert headers["offset"] == b"20"
