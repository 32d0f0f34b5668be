"""Records whose timestamp Spark's reader cannot take."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.offset_log import OffsetLog
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError
from tests.pipeline.crashes import create_topics
from tests.pipeline.mirroring import content
from tests.support.broker_process import BrokerProcess

TIMEOUT_S = 60.0
LAST_MS = (2**63 - 1) // 1_000
NANOSECONDS = 1_767_225_600_123_000_000
TIME_MS = 1_767_225_600_123
FILE = """\
[pipeline]
name = "unreadable"
mode = "available_now"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "{address}"

[sources.records]
kind = "kafka"
cluster = "main"
{topics}

[sinks.landed]
kind = "files"
from = "records"
path = "landed"
format = "parquet"
"""


@pytest.mark.parametrize("key", ['subscribe = ["{topic}"]', 'pattern = "^{topic}$"'])
def test_record_with_a_timestamp_that_spark_cannot_read_is_named(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, key: str
) -> None:
    topic = f"unreadable-{key.split()[0]}"
    create_topics(broker.address, topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(4):
        producer.produce(topic, b"x", partition=0, timestamp=LAST_MS)
        time_ms = NANOSECONDS if number == 2 else 1_767_225_600_123
        producer.produce(topic, b"y", partition=1, timestamp=time_ms)
    assert producer.flush(TIMEOUT_S) == 0
    text = FILE.format(address=broker.address, topics=key.format(topic=topic))
    pipeline = parse(text, tmp_path / "my.toml")
    with pytest.raises(PartFailed) as caught:
        run.wait(pipeline, run.start_stream(run.build(spark, pipeline, tmp_path)))
    assert caught.value.where == ("sources", "records")
    assert f"the record at offset 2 of partition 1 of {topic} has a timestamp" in str(caught.value)


PASSING = """\
[pipeline]
name = "{topic}"
mode = "available_now"
checkpoint = "state"
queries = "{queries}"

[clusters.main]
bootstrap_servers = "{address}"

[sources.records]
kind = "kafka"
cluster = "main"
subscribe = ["{topic}"]
headers = true
max_offsets_per_trigger = {batch}
rejects = "{topic}-rejects"
rejects_cluster = "main"

[steps.texts]
kind = "map"
from = "records"
columns = {{ value = "CAST(value AS STRING)", headers = "headers" }}

[sinks.landed]
kind = "files"
from = "texts"
path = "landed"
format = "parquet"

[sinks.copied]
kind = "kafka"
from = "texts"
cluster = "main"
topic = "{topic}-copy"
delivery_guarantee = "exactly_once"
value = "value"

[steps.counted]
kind = "sql"
query = "SELECT count(*) AS records FROM texts"

[sinks.totals]
kind = "kafka"
from = "counted"
cluster = "main"
topic = "{topic}-totals"
output_mode = "complete"
"""
MARKS = {0: "xx.", 1: ".xx..x", 2: "x", 3: ""}
"""Partition -> its records; x: one that Spark cannot read."""


def produce(address: str, topic: str, marks: dict[int, str], name: str) -> tuple[set[str], int]:
    """Write records; returns the values of those that Spark can read, and the number of others."""
    producer = Producer({"bootstrap.servers": address})
    readable: set[str] = set()
    for partition, records in marks.items():
        for number, mark in enumerate(records):
            value = f"{name}-{partition}-{number}"
            is_readable = mark == "."
            producer.produce(
                topic,
                value,
                b"key",
                partition=partition,
                timestamp=TIME_MS if is_readable else NANOSECONDS,
                headers=[("own", b"\x00")],
            )
            if is_readable:
                readable.add(value)
    assert producer.flush(TIMEOUT_S) == 0
    return readable, sum(records.count("x") for records in marks.values())


def run_to_end(spark: SparkSession, text: str, folder: Path) -> list[str]:
    """Run a pipeline; returns its warnings."""
    warnings: list[str] = []
    pipeline = parse(text, folder / "my.toml")
    built = run.build(spark, pipeline, folder)
    run.run_stream(built, say=lambda failure, what_next: warnings.append(f"{failure}; {what_next}"))
    return warnings


def values(address: str, topic: str) -> list[str]:
    """The values of a topic, sorted."""
    return sorted(
        (record.value or b"").decode()
        for records in content(address, topic).values()
        for record in records
    )


@pytest.mark.parametrize(("queries", "batch"), [("per_sink", 4), ("shared", 1_000)])
def test_unreadable_records_are_dead_letters_and_all_others_are_written_once(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, queries: str, batch: int
) -> None:
    topic = f"passing-{queries}"
    create_topics(broker.address, topic, partitions=4)
    create_topics(broker.address, f"{topic}-rejects", f"{topic}-totals", partitions=1)
    create_topics(broker.address, f"{topic}-copy", partitions=4)
    text = PASSING.format(address=broker.address, topic=topic, queries=queries, batch=batch)
    readable, unreadable = produce(broker.address, topic, MARKS, "first")
    warnings = run_to_end(spark, text, tmp_path)
    again, more = produce(broker.address, topic, {1: "x.", 3: ".x"}, "second")
    run_to_end(spark, text, tmp_path)

    expected = sorted(readable | again)
    landed = spark.read.parquet(str(tmp_path / "landed")).collect()
    assert sorted(row.value for row in landed) == expected
    assert values(broker.address, f"{topic}-copy") == expected
    letters = content(broker.address, f"{topic}-rejects")[0]
    places = set()
    for letter in letters:
        headers = dict(letter.headers)
        assert (letter.key, headers["own"]) == (b"key", b"\x00")
        assert headers["odradek.timestamp"] == str(NANOSECONDS).encode()
        assert headers["odradek.topic"] == topic.encode()
        place = (headers["odradek.partition"], headers["odradek.offset"])
        assert letter.value is not None
        assert letter.value.split(b"-")[1] == place[0]
        places.add(place)
    assert len(letters) == len(places) == unreadable + more
    totals = content(broker.address, f"{topic}-totals")[0]
    assert totals[-1].value == b'{"records":%d}' % len(expected)
    assert any(
        f"of {topic} has a timestamp" in line and f"{topic}-rejects" in line for line in warnings
    )


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_failure_while_records_are_passed_over_is_mended_by_the_next_run(
    spark: SparkSession,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
) -> None:
    topic = f"interrupted-{failing}"
    create_topics(broker.address, topic, partitions=2)
    create_topics(broker.address, f"{topic}-rejects", partitions=1)
    more = f'rejects = "{topic}-rejects"\nrejects_cluster = "main"'
    text = FILE.format(address=broker.address, topics=f'subscribe = ["{topic}"]\n{more}')
    readable, unreadable = produce(broker.address, topic, {0: "xx.x", 1: "..x."}, "only")
    calls = 0
    change = OffsetLog.set_ends

    def fail_once(log: OffsetLog, number: int, ends: dict[tuple[int, str, int], int]) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError("interrupted")
        change(log, number, ends)

    monkeypatch.setattr(OffsetLog, "set_ends", fail_once)
    with pytest.raises(PartFailed, match="it is not passed over: interrupted"):
        run_to_end(spark, text, tmp_path)
    run_to_end(spark, text, tmp_path)
    landed = spark.read.parquet(str(tmp_path / "landed")).collect()
    assert sorted(bytes(row.value).decode() for row in landed) == sorted(readable)
    letters = content(broker.address, f"{topic}-rejects")[0]
    assert len({letter.value for letter in letters}) == unreadable


@pytest.mark.parametrize(
    ("given", "replacement", "message"),
    [
        ('rejects_cluster = "main"', "", "rejects and rejects_cluster belong together"),
        ('rejects_cluster = "main"', 'rejects_cluster = "none"', "'none' is not a cluster"),
        ('mode = "available_now"\ncheckpoint = "state"', 'mode = "batch"', "passes over no record"),
        (
            "[sources.records]",
            'options = { "ssl.truststore.location" = "x.jks" }\n\n[sources.records]',
            "source records has rejects and takes the properties of librdkafka",
        ),
    ],
)
def test_rejects_that_cannot_be_written_are_refused(
    given: str, replacement: str, message: str
) -> None:
    more = 'subscribe = ["a"]\nrejects = "b"\nrejects_cluster = "main"'
    text = FILE.format(address="localhost:9092", topics=more)
    parse(text, Path("my.toml"))
    assert given in text
    with pytest.raises(SpecError, match=message):
        parse(text.replace(given, replacement), Path("my.toml"))
