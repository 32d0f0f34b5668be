"""Whole tasks of users, each in one file: history and then the stream, lakes, registries."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.document import Outside, read_document
from odradek.pipeline.spec.load import pipeline_of
from tests.pipeline.crashes import create_topics, read_topic
from tests.pipeline.lakes import CATALOG, ids, job
from tests.pipeline.topics import avro
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.schema_registry import schema_registry

DAY = datetime(2026, 3, 1, tzinfo=UTC)
HISTORY = """\
[pipeline]
name = "history"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "${KAFKA}"

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["tasks-orders"]
starting_timestamp_ms = "${FROM_MS}"
max_offsets_per_trigger = 7

[steps.parsed]
kind = "parse"
from = "orders"
format = "json"
schema = "id BIGINT NOT NULL"

[sinks.archive]
kind = "files"
from = "parsed"
path = "archive"
format = "json"
"""


def send(address: str, topic: str, rows: dict[int, datetime]) -> None:
    """Records whose timestamps are given, by id."""
    producer = Producer({"bootstrap.servers": address})
    for number, at in rows.items():
        value = json.dumps({"id": number}).encode()
        producer.produce(topic, value, timestamp=round(at.timestamp() * 1000))
    assert producer.flush(30) == 0


def test_history_of_a_day_is_followed_by_the_stream_without_a_seam(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "tasks-orders")
    before = {number: DAY - timedelta(hours=1) for number in range(10)}
    day = {100 + number: DAY + timedelta(minutes=10 * number) for number in range(60)}
    send(broker.address, "tasks-orders", before | day)
    from_ms = str(round(DAY.timestamp() * 1000))
    path = tmp_path / "history.toml"
    outside = Outside({"KAFKA": broker.address, "FROM_MS": from_ms})

    def go() -> None:
        pipeline = pipeline_of(read_document(HISTORY, path, outside), "available_now")
        built = run.build(spark, pipeline, tmp_path)
        run.wait(pipeline, run.start_stream(built))

    go()
    assert ids(tmp_path, "archive") == sorted(day)
    # What comes then, old timestamps included, is new: the checkpoint has the offsets.
    later = {200 + number: DAY - timedelta(days=1) for number in range(10)}
    send(broker.address, "tasks-orders", later)
    go()
    assert ids(tmp_path, "archive") == sorted([*day, *later])


LAKE_HEAD = """\
[pipeline]
name = "{name}"
checkpoint = "{name}-state"

[pipeline.spark]
"spark.driver.memory" = "768m"
"spark.sql.shuffle.partitions" = 2
{more}
[clusters.main]
bootstrap_servers = "{address}"

"""
ENRICHED = """\
[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]

[sources.shops]
kind = "files"
path = "shops"
format = "csv"
schema = "shop STRING, city STRING"
options = { header = true }
static = true

[steps.parsed]
kind = "parse"
from = "orders"
format = "json"
schema = "id BIGINT NOT NULL, shop STRING NOT NULL, at TIMESTAMP NOT NULL"
rejects = "orders-rejects"
rejects_cluster = "main"

[steps.enriched]
kind = "join"
from = "parsed"
right = "shops"
on = "l.shop = r.shop"
how = "left"
columns = { id = "l.id", at = "l.at", city = "coalesce(r.city, 'unknown')" }

[steps.counts]
kind = "window"
from = "enriched"
time = "at"
watermark = "1 minute"
length = "10 minutes"
slide = "5 minutes"
group_by = ["city"]
aggregates = { orders = "count(*)" }

[sinks.lake]
kind = "spark"
from = "enriched"
format = "delta"
path = "lake"
partition_by = ["city"]

[sinks.counts]
kind = "kafka"
from = "counts"
cluster = "main"
topic = "counts"
key = "city"
output_mode = "update"
"""
READ = """\
[sources.{format}]
kind = "spark"
format = "{format}"
{place}

[sinks.out]
kind = "files"
from = "{format}"
path = "read-{format}"
format = "json"
"""
ORDERS = """\
[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["avro-orders"]

[steps.parsed]
kind = "parse"
from = "orders"
format = "avro"
registry = "main"

[sinks.lake]
kind = "spark"
from = "parsed"
format = "iceberg"
table = "lake.shop.orders"

[registries.main]
url = "{registry}"
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_orders_are_enriched_into_delta_and_counted_into_a_topic(tmp_path: Path) -> None:
    (tmp_path / "shops").mkdir()
    (tmp_path / "shops" / "shops.csv").write_text("shop,city\na,Bern\nb,Jena\n")
    with odradek_broker(tmp_path / "broker") as broker:
        create_topics(broker.address, "orders", "orders-rejects", "counts")
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(90):
            at = DAY + timedelta(seconds=10 * number)
            row = {"id": number, "shop": "abc"[number % 3], "at": at.isoformat()}
            producer.produce("orders", json.dumps(row).encode(), partition=0)
        producer.produce("orders", b"no json", partition=0)
        assert producer.flush(30) == 0
        file = tmp_path / "enriched.toml"
        head = {"address": broker.address, "more": ""}
        file.write_text(LAKE_HEAD.format(name="enriched", **head) + ENRICHED)
        job(file, "enriched.log")
        counts = [json.loads(content) for content in read_topic(broker.address, "counts")]
        assert len(read_topic(broker.address, "orders-rejects")) == 1
        reading = tmp_path / "read.toml"
        place = 'path = "lake"'
        reading.write_text(
            LAKE_HEAD.format(name="read", **head) + READ.format(format="delta", place=place)
        )
        job(reading, "read.log")
    orders = [
        json.loads(line)
        for part in (tmp_path / "read-delta").glob("part-*")
        for line in part.read_text().splitlines()
    ]
    cities = {0: "Bern", 1: "Jena", 2: "unknown"}
    assert sorted((order["id"], order["city"]) for order in orders) == [
        (number, cities[number % 3]) for number in range(90)
    ]
    # 15 minutes of 30 orders of each city: two whole windows of ten minutes, and their halves.
    by_window = {(count["window_start"], count["city"]): count["orders"] for count in counts}
    assert len(by_window) == 4 * 3
    assert sum(by_window.values()) == 2 * 90


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_avro_of_a_registry_ends_in_iceberg(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "shop", "type": "string"}],
    }
    catalog = CATALOG.format(warehouse=tmp_path / "warehouse")
    with odradek_broker(tmp_path / "broker") as broker, schema_registry(tmp_path) as registry:
        create_topics(broker.address, "avro-orders")
        client = SchemaRegistryClient({"url": registry.url})
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(30):
            value = avro(client, "avro-orders", schema, {"id": number, "shop": "a"})
            producer.produce("avro-orders", value)
        assert producer.flush(30) == 0
        head = {"address": broker.address, "more": catalog}
        file = tmp_path / "orders.toml"
        text = LAKE_HEAD.format(name="orders", **head) + ORDERS.format(registry=registry.url)
        file.write_text(text)
        job(file, "orders.log")
        reading = tmp_path / "read.toml"
        place = 'table = "lake.shop.orders"'
        reading.write_text(
            LAKE_HEAD.format(name="read", **head) + READ.format(format="iceberg", place=place)
        )
        job(reading, "read.log")
    assert ids(tmp_path, "read-iceberg") == list(range(30))
