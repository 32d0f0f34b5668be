"""Sources and modes: which records a source reads from our broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame, Row, SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import parse
from tests.pipeline.crashes import READ_TIMEOUT_S, create_topics, read_records, read_topic
from tests.support.broker_process import BrokerProcess

TOPICS = ("fruit-apple", "fruit-pear", "stone")
FIRST_MS = 1_700_000_000_000

HEAD = """\
[pipeline]
name = "{name}"
mode = "{mode}"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "{address}"
"""
SOURCE = """
[sources.rows]
kind = "kafka"
cluster = "main"
"""


@pytest.fixture(scope="module", autouse=True)
def topics(broker: BrokerProcess) -> None:
    """Three topics of two partitions; 10 records in each partition, a second apart."""
    create_topics(broker.address, *TOPICS, partitions=2)
    producer = Producer({"bootstrap.servers": broker.address})
    for topic in TOPICS:
        for number in range(20):
            producer.produce(
                topic,
                f"{topic} {number}".encode(),
                None if number % 5 == 0 else f"key {number}".encode(),
                partition=number % 2,
                timestamp=FIRST_MS + number // 2 * 1_000,
                headers=[("number", str(number).encode()), ("empty", b"")],
            )
    assert producer.flush(READ_TIMEOUT_S) == 0
    return


def chosen(spark: SparkSession, broker: BrokerProcess, folder: Path, source: str) -> DataFrame:
    """The rows that a source reads in batch mode."""
    sink = '\n[sinks.out]\nkind = "console"\nfrom = "rows"\n'
    head = HEAD.format(name="batch", mode="batch", address=broker.address)
    pipeline = parse(head + SOURCE + source + sink, folder / "my.toml")
    return run.build(spark, pipeline, folder).outputs["out"][0]


def places(rows: DataFrame) -> dict[tuple[str, int], list[int]]:
    """Topic and partition -> offsets."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for row in rows.orderBy("topic", "partition", "offset").collect():
        offsets.setdefault((row.topic, row.partition), []).append(row.offset)
    return offsets


ALL = list(range(10))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            'subscribe = ["stone", "fruit-pear"]',
            {(topic, partition): ALL for topic in ("fruit-pear", "stone") for partition in (0, 1)},
        ),
        (
            'pattern = "fruit-.*"',
            {
                (topic, partition): ALL
                for topic in ("fruit-apple", "fruit-pear")
                for partition in (0, 1)
            },
        ),
        (
            "assign = { stone = [1], fruit-apple = [0] }",
            {("fruit-apple", 0): ALL, ("stone", 1): ALL},
        ),
        (
            'subscribe = ["stone"]\nstarting_offsets = { stone = { 0 = 7, 1 = -2 } }',
            {("stone", 0): [7, 8, 9], ("stone", 1): ALL},
        ),
        (
            'subscribe = ["stone"]\nending_offsets = { stone = { 0 = 2, 1 = -1 } }',
            {("stone", 0): [0, 1], ("stone", 1): ALL},
        ),
        (
            f'subscribe = ["stone"]\nstarting_timestamp_ms = {FIRST_MS + 7_500}',
            {("stone", 0): [8, 9], ("stone", 1): [8, 9]},
        ),
    ],
)
def test_source_reads_the_topics_and_partitions_it_names(
    spark: SparkSession,
    broker: BrokerProcess,
    tmp_path: Path,
    source: str,
    expected: dict[tuple[str, int], list[int]],
) -> None:
    assert places(chosen(spark, broker, tmp_path, source)) == expected


def test_keys_headers_and_timestamps_are_read(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    rows = chosen(spark, broker, tmp_path, "assign = { stone = [1] }\nheaders = true")
    row = rows.where("offset = 3").withColumn("ms", rows.timestamp.cast("double") * 1000).first()
    assert row is not None
    assert (row.key, row.value) == (bytearray(b"key 7"), bytearray(b"stone 7"))
    assert row.headers == [Row(key="number", value=b"7"), Row(key="empty", value=b"")]
    assert int(row.ms) == FIRST_MS + 3_000
    keys = [row.key for row in rows.orderBy("offset").collect()]
    assert [number for number, key in enumerate(keys) if key is None] == [2, 7]


def test_keys_values_and_headers_are_written_unchanged(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "stone-copy", partitions=2)
    head = HEAD.format(name="copy", mode="batch", address=broker.address)
    source = SOURCE + 'subscribe = ["stone"]\nheaders = true\n'
    sink = '[sinks.out]\nkind = "kafka"\nfrom = "rows"\ncluster = "main"\n'
    pipeline = parse(head + source + sink + 'topic = "stone-copy"\nvalue = "value"\n', tmp_path)
    run.run_batch(run.build(spark, pipeline, tmp_path))
    copies = {
        record.value(): (record.partition(), record.key(), record.headers())
        for record in read_records(broker.address, "stone-copy")
    }
    assert copies == {
        f"stone {number}".encode(): (
            number % 2,
            None if number % 5 == 0 else f"key {number}".encode(),
            [("number", str(number).encode()), ("empty", b"")],
        )
        for number in range(20)
    }


STREAM = """
[sinks.out]
kind = "files"
from = "rows"
path = "out"
format = "json"
"""


def advance(spark: SparkSession, broker: BrokerProcess, folder: Path, source: str) -> list[Row]:
    """Run a stream until it has read the present records; returns all rows of its sink."""
    head = HEAD.format(name="stream", mode="available_now", address=broker.address)
    pipeline = parse(head + SOURCE + source + STREAM, folder / "my.toml")
    run.wait(pipeline, run.start_stream(run.build(spark, pipeline, folder)))
    rows = spark.read.schema("topic STRING, partition INT, offset LONG").json(str(folder / "out"))
    return rows.orderBy("topic", "partition", "offset").collect()


def test_stream_reads_new_partitions_and_topics(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "grows-a", partitions=1)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("grows-a", b"0")
    producer.flush(READ_TIMEOUT_S)
    source = 'pattern = "grows-.*"'
    assert [tuple(row) for row in advance(spark, broker, tmp_path, source)] == [("grows-a", 0, 0)]
    create_topics(broker.address, "grows-b", partitions=1)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions("grows-a", 2)])["grows-a"].result(READ_TIMEOUT_S)
    # The first producer refreshes its metadata only after some minutes.
    producer = Producer({"bootstrap.servers": broker.address})
    for topic, partition in (("grows-a", 0), ("grows-a", 1), ("grows-b", 0)):
        producer.produce(topic, b"1", partition=partition)
    assert producer.flush(READ_TIMEOUT_S) == 0
    assert [tuple(row) for row in advance(spark, broker, tmp_path, source)] == [
        ("grows-a", 0, 0),
        ("grows-a", 0, 1),
        ("grows-a", 1, 0),
        ("grows-b", 0, 0),
    ]


def test_stream_from_latest_reads_later_records_only(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "latest", partitions=1)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("latest", b"before")
    assert producer.flush(READ_TIMEOUT_S) == 0
    source = 'subscribe = ["latest"]\nstarting_offsets = "latest"'
    assert advance(spark, broker, tmp_path, source) == []
    producer.produce("latest", b"after")
    assert producer.flush(READ_TIMEOUT_S) == 0
    assert [tuple(row) for row in advance(spark, broker, tmp_path, source)] == [("latest", 0, 1)]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_files_are_read_into_records_and_written_to_files(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, kind: str
) -> None:
    """Each new file is read once; header, delimiter and partitioned folder are options."""
    topic = f"from-{kind}"
    create_topics(broker.address, topic, partitions=1)
    schema = "id INT, name STRING, price DOUBLE"
    options = 'options = { header = true, sep = ";" }\n' if kind == "csv" else ""
    head = HEAD.format(name=kind, mode="available_now", address=broker.address)
    text = f"""
[sources.rows]
kind = "files"
path = "in"
format = "{kind}"
schema = "{schema}"
{options}
[sinks.sent]
kind = "kafka"
from = "rows"
cluster = "main"
topic = "{topic}"
key = "id"
value = ["id", "name", "price"]

[sinks.landed]
kind = "files"
from = "rows"
path = "out"
format = "{kind}"
partition_by = ["id"]
{options}"""
    pipeline = parse(head + text, tmp_path / "my.toml")
    rows = [(1, "a;b", 0.5), (2, None, 1.5), (3, "\u00e4", None)]
    for count, batch in enumerate((rows[:2], rows[2:])):
        made = spark.createDataFrame(batch, schema).coalesce(1).write.mode("append")
        made.format(kind).options(header="true", sep=";").save(str(tmp_path / "in"))
        run.wait(pipeline, run.start_stream(run.build(spark, pipeline, tmp_path)))
        sent = [json.loads(content) for content in read_topic(broker.address, topic)]
        assert len(sent) == len(rows[: 2 + count])
    sent_rows = sorted((row["id"], row.get("name"), row.get("price")) for row in sent)
    assert sent_rows == rows
    reader = spark.read.format(kind).schema("name STRING, price DOUBLE, id INT")
    landed = reader.options(header="true", sep=";").load(str(tmp_path / "out"))
    assert [
        tuple(row) for row in landed.select("id", "name", "price").orderBy("id").collect()
    ] == rows
    assert sorted(path.name for path in (tmp_path / "out").glob("id=*")) == ["id=1", "id=2", "id=3"]
