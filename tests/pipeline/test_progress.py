"""What a running pipeline tells: to a terminal, in lines, in a file, to Prometheus."""

from __future__ import annotations

import io
import json
from pathlib import Path
from threading import Event
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from rich.console import Console

from pipeline.jobs import run
from pipeline.progress import Progress, QueryProgress, record, serve, show, table_of
from pipeline.spec.load import parse
from tests.pipeline.crashes import create_topics
from tests.pipeline.test_run import produce
from tests.support.broker_process import BrokerProcess
from tests.support.processes import free_port

END_TIMEOUT_S = 60.0

FILE = """\
[pipeline]
name = "watched"
checkpoint = "state"
mode = "available_now"

[clusters.main]
bootstrap_servers = "{address}"

[sources.rows]
kind = "kafka"
cluster = "main"
subscribe = ["{topic}"]
max_offsets_per_trigger = 30

[sinks.{sink}]
kind = "files"
from = "rows"
path = "out"
format = "parquet"
"""


def watched(
    spark: SparkSession, broker: BrokerProcess, folder: Path, topic: str, progress: Progress
) -> list[QueryProgress]:
    """Run the file to its end; what was told, in order."""
    told: list[QueryProgress] = []
    ended = Event()

    def remember(one: QueryProgress) -> None:
        told.append(one)
        if one.state == "ended":
            ended.set()

    progress.on_change.append(remember)
    spark.streams.addListener(progress)
    try:
        text = FILE.format(address=broker.address, topic=topic, sink=topic)
        pipeline = parse(text, folder / "watched.toml")
        built = run.build(spark, pipeline, folder)
        run.wait(pipeline, run.start_stream(pipeline, built, folder))
        assert ended.wait(END_TIMEOUT_S)
    finally:
        spark.streams.removeListener(progress)
    return told


def test_what_waits_is_counted_when_a_batch_begins(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    create_topics(broker.address, "waiting", partitions=1)
    produce(broker.address, "waiting", [b"x"] * 100)
    progress = Progress()
    lines = tmp_path / "progress.jsonl"
    record(progress, lines)
    port = free_port()
    close = serve(progress, port)
    try:
        with show(progress, is_terminal=False):
            told = watched(spark, broker, tmp_path, "waiting", progress)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=END_TIMEOUT_S) as answer:
            text = answer.read().decode()
    finally:
        close()
    batches = [one for one in told if one.state == "running" and one.batch_id >= 0]
    assert [(one.rows, one.offsets_behind) for one in batches] == [
        (30, 100),
        (30, 70),
        (30, 40),
        (10, 10),
    ]
    assert [one.rows_total for one in batches] == [30, 60, 90, 100]
    assert all(one.batch_ms > 0 and one.rows_per_second > 0 for one in batches)
    assert told[-1].state == "ended"
    errors = capfd.readouterr().err
    assert "waiting: batch 1, 30 rows, " in errors
    assert " 70 behind, running\n" in errors

    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(one["batch_id"], one["rows"], one["offsets_behind"]) for one in written[:4]] == [
        (0, 30, 100),
        (1, 30, 70),
        (2, 30, 40),
        (3, 10, 10),
    ]
    families = {one.name: one for one in text_string_to_metric_families(text)}
    samples = {
        sample.name: sample.value
        for family in families.values()
        for sample in family.samples
        if sample.labels == {"query": "waiting"} and not sample.name.endswith("_created")
    }
    assert samples["odradek_pipeline_rows_total"] == 100
    assert samples["odradek_pipeline_batches_total"] == 4
    assert samples["odradek_pipeline_running"] == 0
    assert samples["odradek_pipeline_offsets_behind"] == 0, "nothing waits in the end"
    assert samples["odradek_pipeline_batch_seconds"] > 0
    assert all(family.documentation for family in families.values())


def test_a_later_run_counts_from_where_it_begins(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "later", partitions=2)
    produce(broker.address, "later", [b"x"] * 20)
    watched(spark, broker, tmp_path, "later", Progress())
    produce(broker.address, "later", [b"x"] * 7)
    told = watched(spark, broker, tmp_path, "later", Progress())
    assert [
        (one.rows, one.offsets_behind) for one in told if one.rows and one.state != "ended"
    ] == [(7, 7)]


def test_a_terminal_shows_a_table_that_moves() -> None:
    one = QueryProgress("landed", 12, 500, 12_345, 2_500.4, 210, 1_234_567, "running")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table_of([one]))
    text = console.export_text()
    for cell in ("query", "behind", "landed", "12,345", "2,500", "210 ms", "1,234,567", "running"):
        assert cell in text


def test_a_port_that_is_taken_is_an_error() -> None:
    port = free_port()
    close = serve(Progress(), port)
    with pytest.raises(OSError, match="in use"):
        serve(Progress(), port)
    close()
    serve(Progress(), port)()
