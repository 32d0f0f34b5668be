"""Pipeline files with our broker, run in this process."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.sinks.records import records
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.sinks import KafkaSink
from tests.pipeline.topics import READ_TIMEOUT_S, consume, payment, produce, read_messages
from tests.support.broker_process import BrokerProcess

AT_MS = 1_767_225_600_123

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
headers = true

[steps.keyed]
kind = "map"
from = "payments"
columns = {{ key = "CAST(key AS STRING)" }}

[steps.parsed]
kind = "parse"
from = "keyed"
format = "json"
schema = "merchant STRING, amount DOUBLE"
keep = ["key"]
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


def run_file(spark: SparkSession, text: str, folder: Path) -> None:
    """Run a pipeline to its end."""
    pipeline = parse(text, folder / "my.toml")
    built = run.build(spark, pipeline, folder)
    run.wait(pipeline, run.start_stream(built))


def test_unparsable_records_become_dead_letters_and_others_pass(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    text = FILE.format(address=broker.address)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(20):
        producer.produce("payments", payment(number), f"k{number}".encode())
    own: list[tuple[str, str | bytes | None]] = [
        ("trace", b"1"),
        ("reason", None),
        ("trace", b"\xff"),
        ("odradek.offset", b"999"),
    ]
    producer.produce("payments", b"garbage", b"\xffk", timestamp=AT_MS, headers=own)
    producer.produce("payments", b"more of it", None, timestamp=AT_MS + 1)
    assert producer.flush(READ_TIMEOUT_S) == 0
    run_file(spark, text, tmp_path)
    produce(broker.address, "payments", [payment(number) for number in range(20, 30)])
    run_file(spark, text, tmp_path)

    large = consume(broker.address, "large-payments", 20)
    values = [json.loads(value or b"") for _, value, _ in large]
    assert sorted(value["amount"] for value in values) == [
        float(number) for number in range(10, 30)
    ]
    assert [key for key, _, _ in large] == [value["merchant"].encode() for value in values]
    assert {value.get("key") for value in values} == {
        None,
        *(f"k{number}" for number in range(10, 20)),
    }
    landed = spark.read.parquet(str(tmp_path / "landed"))
    assert sorted(row.amount for row in landed.collect()) == [float(n) for n in range(30)]
    letters = read_messages(broker.address, "payments-rejected", 2)
    assert [(letter.key(), letter.value()) for letter in letters] == [
        (b"\xffk", b"garbage"),
        (None, b"more of it"),
    ]
    assert [letter.headers() for letter in letters] == [
        [*own[:3], *origin(20, AT_MS)],
        origin(21, AT_MS + 1),
    ]


def origin(offset: int, at_ms: int) -> list[tuple[str, bytes]]:
    """The headers of a dead letter."""
    return [
        ("odradek.reason", b"not JSON"),
        ("odradek.topic", b"payments"),
        ("odradek.partition", b"0"),
        ("odradek.offset", str(offset).encode()),
        ("odradek.timestamp", str(at_ms).encode()),
    ]


def test_bytes_in_a_json_value_are_base64(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(b"0", 1)], "key BINARY, n INT")
    sink = KafkaSink.model_validate(
        {"kind": "kafka", "from": "rows", "cluster": "main", "topic": "out"}
    )
    ((value, key),) = records(rows, sink).collect()
    assert (json.loads(value), key) == ({"key": "MA==", "n": 1}, b"0")
