"""Progress of a pipeline: on a terminal, as lines, in a file, for Prometheus."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent
from rich.console import Console

from odradek.pipeline.jobs import run
from odradek.pipeline.report.metrics import serve
from odradek.pipeline.report.progress import (
    LossWarner,
    Progress,
    QueryProgress,
    record,
    show,
    table_of,
)
from odradek.pipeline.spec.load import parse
from tests.pipeline.crashes import create_topics
from tests.pipeline.scraping import scraped
from tests.pipeline.topics import produce
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

END_TIMEOUT_S = 180.0

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
    """Run the file to its end; returns the reported progress in order."""
    reported: list[QueryProgress] = []
    ended = Event()

    def remember(query: QueryProgress) -> None:
        reported.append(query)
        if query.state == "ended":
            ended.set()

    progress.on_change.append(remember)
    spark.streams.addListener(progress)
    try:
        text = FILE.format(address=broker.address, topic=topic, sink=topic)
        pipeline = parse(text, folder / "watched.toml")
        built = run.build(spark, pipeline, folder)
        run.wait(pipeline, run.start_stream(built))
        assert ended.wait(END_TIMEOUT_S)
    finally:
        spark.streams.removeListener(progress)
    return reported


def test_unread_records_are_counted_at_the_start_of_a_batch(
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
            reported = watched(spark, broker, tmp_path, "waiting", progress)
        samples = scraped(port)
    finally:
        close()
    batches = [query for query in reported if query.state == "running" and query.batch_id >= 0]
    assert [(progress.rows, progress.offsets_behind) for progress in batches] == [
        (30, 100),
        (30, 70),
        (30, 40),
        (10, 10),
    ]
    assert [progress.rows_total for progress in batches] == [30, 60, 90, 100]
    assert all(progress.batch_ms > 0 and progress.rows_per_second > 0 for progress in batches)
    assert reported[-1].state == "ended"
    errors = capfd.readouterr().err
    assert "waiting: batch 1, 30 rows, " in errors
    assert " 70 behind, running\n" in errors

    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(line["batch_id"], line["rows"], line["offsets_behind"]) for line in written[:4]] == [
        (0, 30, 100),
        (1, 30, 70),
        (2, 30, 40),
        (3, 10, 10),
    ]
    assert samples["rows_total", "waiting"] == 100
    assert samples["batches_total", "waiting"] == 4
    assert samples["running", "waiting"] == 0
    assert samples["offsets_behind", "waiting"] == 0, "nothing waits in the end"
    assert samples["batch_seconds", "waiting"] > 0


def test_later_run_counts_from_its_own_start(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topics(broker.address, "later", partitions=2)
    produce(broker.address, "later", [b"x"] * 20)
    watched(spark, broker, tmp_path, "later", Progress())
    produce(broker.address, "later", [b"x"] * 7)
    reported = watched(spark, broker, tmp_path, "later", Progress())
    assert [
        (query.rows, query.offsets_behind)
        for query in reported
        if query.rows and query.state != "ended"
    ] == [(7, 7)]


def event(**fields: object) -> Any:
    """An event for Spark's listener, with the fields that are used."""
    return SimpleNamespace(**fields)


def operator(
    name: str, *, late: int = 0, state_rows: int = 0, state_bytes: int = 0
) -> dict[str, Any]:
    """A stateful operator in Spark's JSON."""
    return {
        "operatorName": name,
        "numRowsTotal": state_rows,
        "numRowsUpdated": 0,
        "allUpdatesTimeMs": 0,
        "numRowsRemoved": 0,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 0,
        "memoryUsedBytes": state_bytes,
        "numRowsDroppedByWatermark": late,
        "numShufflePartitions": 2,
        "numStateStoreInstances": 2,
        "customMetrics": {},
    }


def batch(
    name: str,
    number: int,
    operators: Sequence[dict[str, Any]] = (),
    *,
    ahead: Mapping[str, int] | None = None,
    written: int = -1,
    watermark: str | None = None,
) -> QueryProgressEvent:
    """A finished batch, as PySpark parses it from Spark's JSON.

    ahead    step -> rows dropped since their times were too far ahead
    written  rows that the sink has written; -1: unknown
    """
    observed = {f"ahead:{step}:0": {"rows": count} for step, count in (ahead or {}).items()}
    progress = {
        "id": str(identity(name)),
        "runId": str(identity(name)),
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": number,
        "batchDuration": 5,
        "durationMs": {"triggerExecution": 5, "addBatch": 3},
        "eventTime": {} if watermark is None else {"watermark": watermark},
        "stateOperators": list(operators),
        "sources": [],
        "sink": {"description": "sink", "numOutputRows": written},
        "numInputRows": 10,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "observedMetrics": {**observed, "of another": {"n": 1}},
    }
    return QueryProgressEvent.fromJson({"progress": progress})


def identity(name: str) -> UUID:
    """The id of a query."""
    return uuid5(NAMESPACE_OID, name)


def begin(progress: Progress, *names: str) -> None:
    """Report the start of queries."""
    for name in names:
        progress.onQueryStarted(event(name=name, id=identity(name)))


def test_dropped_rows_are_counted_by_step() -> None:
    steps = {"one": ["window", "unique"], "query": ["query"], "none": []}
    progress = Progress(stateful_steps=lambda query: steps[query])
    begin(progress, *steps)
    for number in range(2):
        operators = [operator("a", late=3), operator("b", late=4)]
        progress.onQueryProgress(batch("one", number, operators, ahead={"other": number}))
        query = [operator("a", late=1), operator("b", late=2), operator("c")]
        progress.onQueryProgress(batch("query", number, query))
        none = [operator("a"), operator("operator1", late=number)]
        progress.onQueryProgress(batch("none", number, none))
    queries = {query.name: query for query in progress.queries()}
    assert (queries["one"].late, queries["one"].ahead) == ({"window": 6, "unique": 8}, {"other": 1})
    assert queries["query"].late == {"query": 6}, "all operators of a query in SQL are its own"
    assert queries["none"].late == {"operator1": 1}
    assert progress.losses() == [
        "one: step window has dropped at least 6 rows as late: their times were before the"
        " watermark",
        "one: step unique has dropped at least 8 rows as late: their times were before the"
        " watermark",
        "one: step other has dropped 1 row whose times were further ahead of now than ahead_max",
        "query: step query has dropped at least 6 rows as late: their times were before the"
        " watermark",
        "none: step operator1 has dropped at least 1 row as late: their times were before the"
        " watermark",
    ]
    begin(progress, "one")
    assert progress.queries()[0].late == {}, "a query that begins again counts from zero"


def test_warning_is_printed_for_first_dropped_rows_and_when_doubled() -> None:
    lines: list[str] = []
    progress = Progress(stateful_steps=lambda query: ["window"])
    progress.on_change.append(LossWarner(lines.append))
    begin(progress, "one")
    for number in range(100):
        progress.onQueryProgress(
            batch("one", number, [operator("a", late=0 if number < 50 else 10)])
        )
    counts = [int(line.split("at least ")[1].split()[0]) for line in lines]
    assert counts == [10, 20, 40, 80, 160, 320]


def test_query_stopped_by_this_process_has_not_failed() -> None:
    asked = Event()
    progress = Progress(is_stopping=asked.is_set)
    begin(progress, "failed", "sibling", "done")

    def end(name: str, exception: str | None = None) -> str:
        progress.onQueryTerminated(event(id=identity(name), exception=exception))
        return {query.name: query.state for query in progress.queries()}[name]

    assert end("failed", "out of memory") == "failed"
    progress.stopping("sibling")
    assert end("sibling", "interrupted") == "stopped"
    assert end("done") == "ended"
    begin(progress, "sibling")
    assert end("sibling", "again") == "failed", "that it was stopped was an earlier run"
    asked.set()
    begin(progress, "last")
    assert end("last", "interrupted") == "stopped", "the process was to end"


def test_terminal_shows_an_updated_table() -> None:
    query = QueryProgress("landed", 12, 500, 12_345, 2_500.4, 210, 1_234_567, "running")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table_of([query]))
    text = console.export_text()
    for cell in ("query", "behind", "landed", "12,345", "2,500", "210 ms", "1,234,567", "running"):
        assert cell in text


def test_prometheus_metrics_match_sparks_progress() -> None:
    steps = {"windows": ["window", "unique"], "parsed_rejects": [], "begun": []}
    progress = Progress(
        stateful_steps=lambda query: steps[query], dead_letter_steps={"parsed_rejects": "parsed"}
    )
    port = free_port()
    close = serve(progress, port)
    try:
        assert scraped(port) == {}
        begin(progress, *steps)
        before = scraped(port)
        for number, watermark in enumerate(
            ("1970-01-01T00:00:00.000Z", "2026-01-01T00:00:00.250Z")
        ):
            operators = [
                operator("save", late=number, state_rows=7 + number, state_bytes=900),
                operator("dedupe", state_rows=100, state_bytes=4_000),
            ]
            progress.onQueryProgress(
                batch("windows", number, operators, ahead={"window": 2}, watermark=watermark)
            )
            if number == 0:
                first = scraped(port)
            progress.onQueryProgress(batch("parsed_rejects", number, written=3))
        progress.onQueryTerminated(event(id=identity("windows"), exception="out of memory"))
        values = scraped(port)
        begin(progress, "windows")
        again = scraped(port)
    finally:
        close()
    plain = [
        *("rows_total", "batches_total", "failures_total", "rows_per_second", "batch_seconds"),
        *("offsets_behind", "running"),
    ]
    assert before == {
        (name, query): float(name == "running") for name in plain for query in steps
    }, "no watermark, no state"
    assert ("watermark_timestamp_seconds", "windows") not in first, "no row has moved it"
    assert {key: value for key, value in values.items() if key[1] == "windows"} == {
        ("rows_total", "windows"): 20,
        ("batches_total", "windows"): 2,
        ("failures_total", "windows"): 1,
        ("rows_per_second", "windows"): 0,
        ("batch_seconds", "windows"): 0.005,
        ("offsets_behind", "windows"): 0,
        ("running", "windows"): 0,
        ("watermark_timestamp_seconds", "windows"): 1_767_225_600.25,
        ("late_rows_total", "windows", "window"): 1,
        ("ahead_rows_total", "windows", "window"): 4,
        ("state_rows", "windows", "window"): 8,
        ("state_rows", "windows", "unique"): 100,
        ("state_bytes", "windows", "window"): 900,
        ("state_bytes", "windows", "unique"): 4_000,
    }
    assert values["dead_letters_total", "parsed_rejects", "parsed"] == 6
    assert values["batch_part_seconds", "addBatch", "windows"] == 0.003, "the part comes first"
    assert (again["rows_total", "windows"], again["failures_total", "windows"]) == (0, 1)


def test_unknown_row_count_of_a_sink_is_no_dead_letter() -> None:
    progress = Progress(dead_letter_steps={"parsed_rejects": "parsed"})
    for name in ("parsed_rejects", "out"):
        progress.onQueryProgress(batch(name, 0, written=-1))
        progress.onQueryProgress(batch(name, 1, written=5))
    assert [dict(query.dead_letters) for query in progress.queries()] == [{"parsed": 5}, {}]


def test_prometheus_listens_on_the_chosen_host_only() -> None:
    port = free_port()
    close = serve(Progress(), port, host="127.0.0.2")
    try:
        assert scraped(port, "127.0.0.2") == {}
        with pytest.raises(URLError, match="refused"):
            scraped(port)
    finally:
        close()
    with pytest.raises(OSError, match="Cannot assign requested address"):
        serve(Progress(), port, host="192.0.2.1")


def test_metrics_port_in_use_is_an_error() -> None:
    port = free_port()
    close = serve(Progress(), port)
    with pytest.raises(OSError, match="in use"):
        serve(Progress(), port)
    close()
    serve(Progress(), port)()
