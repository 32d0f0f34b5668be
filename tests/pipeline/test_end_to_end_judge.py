"""A pipeline file gives the same output with our broker and with Apache Kafka."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import parse
from tests.pipeline.crashes import READ_TIMEOUT_S, create_topics, read_records
from tests.support.apache import apache_node
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.judge

TOPICS: Final = ("in-a", "in-b", "out", "totals", "routed-large", "routed-small", "rejected")
OUT: Final = TOPICS[2:]
FIRST_MS: Final = 1_772_366_400_000

FILE: Final = """\
[pipeline]
name = "judged"
checkpoint = "state"
mode = "available_now"

[clusters.main]
bootstrap_servers = "{address}"
options = {{ "client.id" = "judged" }}

[sources.records]
kind = "kafka"
cluster = "main"
pattern = "in-.*"
headers = true
max_offsets_per_trigger = 50

[steps.parsed]
kind = "parse"
from = "records"
format = "json"
schema = "id BIGINT, shop STRING, amount DOUBLE, at TIMESTAMP"
required = ["id", "at"]
keep = ["key", "headers", "topic", "offset"]
rejects = "rejected"
rejects_cluster = "main"

[steps.unique]
kind = "deduplicate"
from = "parsed"
keys = ["id"]
time = "at"
watermark = "1 day"

[steps.routed]
kind = "route"
from = "unique"
rules = {{ routed-large = "amount >= 50" }}
otherwise = "routed-small"

[steps.totals]
kind = "window"
from = "parsed"
time = "at"
watermark = "1 day"
length = "10 seconds"
group_by = ["shop"]
aggregates = {{ n = "count(*)", total = "sum(amount)" }}

[sinks.copied]
kind = "kafka"
from = "records"
cluster = "main"
topic = "out"
value = "value"

[sinks.sorted]
kind = "kafka"
from = "routed"
cluster = "main"
key = "shop"
value = ["id", "shop", "amount"]

[sinks.landed]
kind = "files"
from = "unique"
path = "landed"
format = "json"
partition_by = ["shop"]

[sinks.stored]
kind = "jdbc"
from = "totals"
url = "jdbc:sqlite:judged.db"
table = "totals"
keys = ["window_start", "shop"]
output_mode = "update"
"""


def fill(address: str) -> None:
    """Write records with keys, headers and times, duplicates, late and invalid ones."""
    create_topics(address, *TOPICS, partitions=2)
    producer = Producer({"bootstrap.servers": address})
    for number in range(120):
        at_ms = FIRST_MS + (number * 700) % 40_000
        body = {
            "id": number % 110,
            "shop": f"s{number % 4}",
            "amount": float(number % 110),
            "at": f"2026-03-01T12:00:{at_ms % 60_000 / 1000:06.3f}Z",
        }
        value = b"garbage" if number % 40 == 39 else json.dumps(body).encode()
        producer.produce(
            f"in-{'ab'[number % 2]}",
            value,
            f"s{number % 4}".encode() if number % 10 else None,
            partition=number // 2 % 2,
            timestamp=at_ms,
            headers=[("n", str(number).encode())],
        )
    assert producer.flush(READ_TIMEOUT_S) == 0


def outcome(spark: SparkSession, address: str, folder: Path) -> dict[str, Any]:
    """All output of the pipeline, in a reproducible order."""
    folder.mkdir()
    fill(address)
    pipeline = parse(FILE.format(address=address), folder / "judged.toml")
    run.wait(pipeline, run.start_stream(run.build(spark, pipeline, folder)))
    outputs: dict[str, Any] = {
        topic: sorted(
            (record.partition(), repr(record.key()), record.value() or b"", repr(record.headers()))
            if topic != "out"
            else (0, repr(record.key()), record.value() or b"", repr(record.headers()))
            for record in read_records(address, topic)
        )
        for topic in OUT
    }
    rows = spark.read.json(str(folder / "landed"))
    outputs["landed"] = sorted((row.id, row.shop, row.amount, row.at) for row in rows.collect())
    with closing(sqlite3.connect(folder / "judged.db")) as database:
        outputs["stored"] = database.execute("SELECT * FROM totals ORDER BY 1, 2, 3").fetchall()
    return outputs


@pytest.fixture
def apache(tmp_path: Path) -> Iterator[str]:
    """The address of an Apache broker."""
    with apache_node(tmp_path) as broker:
        yield broker.address


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_same_output_with_our_broker_and_with_apache_kafka(
    spark: SparkSession, broker: BrokerProcess, apache: str, tmp_path: Path
) -> None:
    ours = outcome(spark, broker.address, tmp_path / "ours")
    theirs = outcome(spark, apache, tmp_path / "theirs")
    assert len(ours["out"]) == 120
    assert len(ours["rejected"]) == 3
    assert len(ours["routed-large"]) + len(ours["routed-small"]) == len(ours["landed"]) > 100
    assert sum(row[3] for row in ours["stored"]) == 117
    for name, output in ours.items():
        assert output == theirs[name], name
