"""Event times: numbers with a unit, the bound `ahead_max`, and counts of dropped rows."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import lifecycle, run
from odradek.pipeline.jobs.lifecycle import progress_shown
from odradek.pipeline.report.metrics import serve
from odradek.pipeline.report.progress import Progress, QueryProgress, record
from odradek.pipeline.spark.gateway import java_context
from odradek.pipeline.spec.event_time import event_times, stateful_steps
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.problems import SpecError
from tests.pipeline.crashes import create_topics
from tests.pipeline.feeding import document, feed, in_batch, moment, outcome
from tests.pipeline.scraping import scraped
from tests.pipeline.topics import consume
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

END_TIMEOUT_S = 180.0
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 1_767_225_600
COLUMNS = ("s", "ms", "us", "ns", "none")
WITHOUT = "none is a number without a unit: epoch gives it"

NUMBERS: list[tuple[str, object, object]] = [
    ("s", SECONDS, NOW),
    ("ms", SECONDS * 1_000, NOW),
    ("us", SECONDS * 1_000_000, NOW),
    ("ns", SECONDS * 1_000_000_000 + 999, NOW),
    ("ms", 0, datetime(1970, 1, 1, tzinfo=UTC)),
    ("ms", -1_000, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("ms", 253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
    ("ms", 253_402_300_800_000, 'ms is not in the years 1 to 9999 with epoch = "ms"'),
    ("s", SECONDS * 1_000, 's is not in the years 1 to 9999 with epoch = "s"'),
    ("s", 1 << 62, 's is not in the years 1 to 9999 with epoch = "s"'),
    ("ns", -(1 << 63), datetime(1677, 9, 21, 0, 12, 43, 145_225, UTC)),
    ("us", 1 << 80, 'us is not in the years 1 to 9999 with epoch = "us"'),
    ("ms", -9_223_372_036_854_775, 'ms is not in the years 1 to 9999 with epoch = "ms"'),
    ("s", -62_104_060_800, datetime(2, 1, 1, tzinfo=UTC)),
    ("s", -62_135_596_801, 's is not in the years 1 to 9999 with epoch = "s"'),
    ("ms", "2026-01-01T00:00:00Z", NOW),
    ("ms", "+12026-01-01T00:00:00Z", "ms is not in the years 1 to 9999"),
    ("ms", 1.5, "ms is not TIMESTAMP"),
    ("ms", True, "ms is not TIMESTAMP"),
    ("ms", {"at": 5}, "ms is not TIMESTAMP"),
    ("ms", "", "ms is not TIMESTAMP"),
    ("ms", None, None),
    ("none", SECONDS, WITHOUT),
    ("none", SECONDS * 1_000, WITHOUT),
    ("none", f"{SECONDS}", WITHOUT),
    ("none", 0, WITHOUT),
    ("none", "2026-01-01T00:00:00Z", NOW),
    ("none", "+12026-01-01T00:00:00Z", "none is not in the years 1 to 9999"),
]


@pytest.mark.parametrize("text_format", ["json", "csv"])
def test_number_in_a_timestamp_column_without_a_unit_is_a_dead_letter(
    spark: SparkSession, text_format: str
) -> None:
    rows = NUMBERS
    if text_format == "csv":
        # In CSV all values are texts; digits count as a number.
        rows = [row for row in rows if type(row[1]) in (str, int) and row[1] != ""]
    outcomes = outcome(
        spark,
        [_line(text_format, column, value) for column, value, _ in rows],
        format=text_format,
        schema=", ".join(f"{column} TIMESTAMP" for column in COLUMNS),
        epoch={column: column for column in COLUMNS if column != "none"},
    )
    assert [
        result if isinstance(result, str) else _moment(result[COLUMNS.index(column)])
        for result, (column, _, _) in zip(outcomes, rows, strict=True)
    ] == [expected for _, _, expected in rows]


def _line(text_format: str, column: str, value: object) -> bytes:
    if text_format == "json":
        return json.dumps({column: value}).encode()
    return ",".join(str(value) if column == name else "" for name in COLUMNS).encode()


def _moment(at: datetime | None) -> datetime | None:
    return None if at is None else moment(at)


def test_numbers_are_read_as_times_in_nested_columns(spark: SparkSession) -> None:
    schema = (
        "o STRUCT<at: TIMESTAMP, n: INT>, l ARRAY<TIMESTAMP>, m MAP<STRING, TIMESTAMP>,"
        " t TIMESTAMP, d DATE, z TIMESTAMP_NTZ"
    )
    whole = {
        "o": {"at": SECONDS, "n": 1},
        "l": [SECONDS * 1_000, None],
        "m": {"k": SECONDS * 1_000},
    }
    values = [
        whole | {"t": "2026-01-01T00:00:00Z", "d": "2026-01-01", "z": "2026-01-01T00:00:00"},
        {"o": None, "l": None, "m": None},
        {"o": {"n": 1}},
        {"o": {"at": SECONDS * 1_000}},
        {"l": [1, 253_402_300_800_000]},
        {"m": {"k": "x"}},
        {"t": SECONDS},
        {"d": "+12026-01-01"},
        {"d": "-0001-12-31"},
        {"z": "+12026-01-01T00:00:00"},
        {"z": SECONDS},
    ]
    first, *others = outcome(
        spark,
        [json.dumps(value).encode() for value in values],
        format="json",
        schema=schema,
        epoch={"o.at": "s", "l": "ms", "m": "ms"},
    )
    assert moment(first[0].at) == moment(first[1][0]) == moment(first[2]["k"]) == NOW
    assert (first[0].n, first[1][1], str(first[4]), first[5].year) == (1, None, "2026-01-01", 2026)
    assert others[0] == (None,) * 6
    assert (others[1][0].at, others[1][0].n) == (None, 1)
    assert others[2:] == [
        'o.at is not in the years 1 to 9999 with epoch = "s"',
        "l is not ARRAY of TIMESTAMP",
        "m is not MAP to TIMESTAMP",
        "t is a number without a unit: epoch gives it",
        "d is not in the years 1 to 9999",
        "d is not in the years 1 to 9999",
        "z is not in the years 1 to 9999",
        "z is not TIMESTAMP_NTZ",
    ]


def test_avro_time_after_year_9999_is_a_dead_letter(spark: SparkSession) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    field = {"name": "at", "type": millis}
    schema = json.dumps({"type": "record", "name": "r", "fields": [field]})
    values = [_zigzag(SECONDS * 1_000), _zigzag(253_402_300_800_000)]
    good, bad = outcome(spark, values, format="avro", schema=schema)
    assert moment(good[0]) == NOW
    assert bad == "at is not in the years 1 to 9999"


def _zigzag(number: int) -> bytes:
    """The Avro encoding of a long."""
    number = (number << 1) ^ (number >> 63)
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


def test_number_in_a_file_source_without_a_unit_is_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path / "rows", [[{"at": SECONDS}, {"at": "2026-01-01T00:00:00Z"}, {"at": "x"}]])
    schemas = {"rows": "at TIMESTAMP"}
    without = [row["at"] for row in in_batch(spark, tmp_path, "", "rows", schemas)]
    assert [at and moment(at) for at in without] == [None, NOW, None]
    text = document("", "batch", schemas).replace("schema =", 'epoch = "s"\nschema =')
    run.build(spark, parse(text, tmp_path / "my.toml"), tmp_path)
    times = [row["at"] for row in spark.table("rows").collect()]
    assert [at and moment(at) for at in times] == [NOW, NOW, None]
    with pytest.raises(SpecError, match="without options timestampFormat and mode"):
        parse(text + '[sources.rows.options]\nmode = "FAILFAST"\n', tmp_path / "my.toml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schema": "a INT", "epoch": "ms"}, "epoch: the schema has no TIMESTAMP"),
        ({"schema": "at TIMESTAMP, b INT", "epoch": {"b": "ms"}}, "'b' is not a TIMESTAMP of the"),
        ({"schema": "at TIMESTAMP", "epoch": "m"}, "Input should be 's', 'ms', 'us' or 'ns'"),
        ({"schema": "o STRUCT<at: TIMESTAMP>", "epoch": {"at": "s"}}, "there are: o.at"),
        (
            {
                "format": "avro",
                "schema": '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}',
                "epoch": "s",
            },
            "epoch: a schema gives the unit itself",
        ),
    ],
)
def test_unit_without_a_timestamp_column_is_an_error(
    settings: dict[str, Any], message: str
) -> None:
    whole = {"kind": "parse", "from": "rows", "format": "json", **settings}
    with pytest.raises(ValueError, match="validation error") as caught:
        Parse.model_validate(whole)
    assert message in str(caught.value)


FILE = """\
[pipeline]
name = "poisoned"
checkpoint = "state"
mode = "available_now"

[clusters.main]
bootstrap_servers = "{address}"

[sources.rows]
kind = "kafka"
cluster = "main"
subscribe = ["poisoned"]
max_offsets_per_trigger = 100

[steps.parsed]
kind = "parse"
from = "rows"
format = "json"
schema = "id BIGINT NOT NULL, at TIMESTAMP NOT NULL"
epoch = "ms"
rejects = "poisoned-rejected"
rejects_cluster = "main"

[steps.renamed]
kind = "map"
from = "parsed"
columns = {{ happened = "at" }}

[steps.per_event]
kind = "window"
from = "renamed"
time = "happened"
watermark = "10s"
length = "10 secs"
aggregates = {{ n = "count(*)" }}

[steps.per_arrival]
kind = "window"
from = "rows"
time = "timestamp"
watermark = "10 seconds"
length = "10 seconds"
aggregates = {{ n = "count(*)" }}

[sinks.events]
kind = "jdbc"
from = "per_event"
url = "jdbc:sqlite:events.db"
table = "events"
keys = ["window_start"]
output_mode = "update"

[sinks.arrivals]
kind = "jdbc"
from = "per_arrival"
url = "jdbc:sqlite:arrivals.db"
table = "arrivals"
keys = ["window_start"]
output_mode = "update"
"""
DAY_MS = 86_400_000


def test_row_far_ahead_drops_no_other_row_and_late_rows_are_counted(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Times in a wrong unit and far ahead, in the values and in the timestamps of records."""
    now_ms = time.time_ns() // 1_000_000
    begin_ms = now_ms - 3_600_000
    _send_poisoned(broker.address, begin_ms, now_ms)
    pipeline = parse(FILE.format(address=broker.address), tmp_path / "poisoned.toml")
    progress = Progress(
        stateful_steps=lambda query: stateful_steps(pipeline, query),
        dead_letter_steps=pipeline.dead_letter_steps(),
    )
    record(progress, tmp_path / "progress.jsonl")
    port = free_port()
    close = serve(progress, port)
    try:
        built = run.build(spark, pipeline, tmp_path)
        with progress_shown(spark, progress):
            run.wait(pipeline, run.start_stream(built))
        metrics = scraped(port)
    finally:
        spark.streams.removeListener(progress)
        close()

    reasons = [
        (json.loads(value or b"")["id"], headers["odradek.reason"].decode())
        for _, value, headers in consume(broker.address, "poisoned-rejected", 2)
    ]
    assert reasons == [
        (98, 'at is not in the years 1 to 9999 with epoch = "ms"'),
        (99, "at is more than 1 day ahead of now"),
    ]
    assert _counted(tmp_path, "events") == 98 + 100 + 50, "but for the poison and the late"
    assert _counted(tmp_path, "arrivals") == 99 + 100 + 50
    states = {query.name: query for query in progress.queries()}
    assert states["events"].late.keys() == {"per_event"}
    assert 5 <= states["events"].late["per_event"] <= 50, "5 windows lost 50 rows"
    assert states["events"].ahead == {}, "it was a dead letter"
    assert states["arrivals"].ahead == {"per_arrival": 1}
    assert states["parsed_rejects"].late == states["parsed_rejects"].ahead == {}

    late = states["events"].late["per_event"]
    _check_reports(tmp_path, metrics, late, begin_ms)
    lines = capfd.readouterr().err.splitlines()
    warning = f"WARN events: step per_event has dropped at least {late} rows as late: "
    assert sum(line.startswith(warning) for line in lines) == 2, "when it begins, and in the end"
    assert any(f" {late} late, " in line for line in lines if line.startswith("events: batch 2, "))
    ahead = "WARN arrivals: step per_arrival has dropped 1 row whose times"
    assert any(line.startswith(ahead) for line in lines[-4:])


@pytest.mark.parametrize("is_late", [False, True])
def test_end_waits_for_the_last_progress_and_warns_when_it_does_not_come(
    spark: SparkSession,
    is_late: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also for progress that takes longer than the 5 s in which an idle machine has it."""
    progress = Progress()
    is_released = Event()

    def hold(query: QueryProgress) -> None:
        """Delay all events after the start."""
        if query.batch_id >= 0:
            is_released.wait(END_TIMEOUT_S)

    progress.on_change.append(hold)
    if is_late:
        monkeypatch.setattr(lifecycle, "EVENTS_TIMEOUT_MS", 100)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    release = Timer(6.0, is_released.set)
    try:
        with progress_shown(spark, progress):
            writer = rows.writeStream.format("noop").queryName("rows").trigger(once=True)
            assert writer.start().awaitTermination(int(END_TIMEOUT_S))
            if not is_late:
                release.start()
        states = [query.state for query in progress.queries()]
    finally:
        is_released.set()
        release.cancel()
        java_context(spark).sc().listenerBus().waitUntilEmpty(int(END_TIMEOUT_S * 1_000))
        spark.streams.removeListener(progress)
    warning = "WARN the last progress did not come within 100 ms: "
    assert (warning in capfd.readouterr().err) == is_late
    assert states == ["running" if is_late else "ended"]


def _send_poisoned(address: str, begin_ms: int, now_ms: int) -> None:
    """Send rows with ascending times, two far ahead, and late ones."""
    create_topics(address, "poisoned", partitions=1)
    times_ms = [begin_ms + 1_000 * second for second in range(600, 698)]
    poison = {len(times_ms): now_ms * 1_000, len(times_ms) + 1: now_ms + 2 * DAY_MS}
    times_ms += [begin_ms, now_ms + 2 * DAY_MS]
    times_ms += [begin_ms + 1_000 * second for second in range(700, 800)]
    times_ms += [begin_ms + 1_000 * second for second in (*range(50), *range(800, 850))]
    producer = Producer({"bootstrap.servers": address})
    for number, at_ms in enumerate(times_ms):
        value = json.dumps({"id": number, "at": poison.get(number, at_ms)})
        producer.produce("poisoned", value, timestamp=at_ms)
    assert producer.flush(END_TIMEOUT_S) == 0


def _check_reports(
    folder: Path, metrics: Mapping[tuple[str, ...], float], late: int, begin_ms: int
) -> None:
    """Check the progress file and the metrics after the run."""
    *_, last = [
        json.loads(line)
        for line in (folder / "progress.jsonl").read_text().splitlines()
        if json.loads(line)["name"] == "events"
    ]
    assert last["late"] == {"per_event": late}
    assert metrics["late_rows_total", "events", "per_event"] == late
    assert metrics["ahead_rows_total", "arrivals", "per_arrival"] == 1
    assert metrics["dead_letters_total", "parsed_rejects", "parsed"] == 2
    for query, step in (("events", "per_event"), ("arrivals", "per_arrival")):
        # Windows after the watermark are open: those of the 10 seconds before the last row.
        assert metrics["watermark_timestamp_seconds", query] == (begin_ms + 839_000) / 1_000
        assert 1 <= metrics["state_rows", query, step] <= 2
        assert metrics["state_bytes", query, step] > 0


def _counted(folder: Path, name: str) -> int:
    with closing(sqlite3.connect(folder / f"{name}.db")) as database:
        count: int = database.execute(f"SELECT sum(n) FROM {name}").fetchone()[0]
        return count


def pipeline_of(steps: str) -> PipelineSpec:
    """A pipeline with a topic as its source and a sink for each step."""
    names = re.findall(r"\[steps\.(\w+)\]", steps)
    sinks = "".join(f'[sinks.{name}]\nkind = "console"\nfrom = "{name}"\n' for name in names)
    head = FILE.partition("[steps")[0].format(address="localhost:1")
    return parse(head + steps + sinks, Path("my.toml"))


PARSED = """
[steps.parsed]
kind = "parse"
from = "rows"
format = "json"
schema = "id BIGINT, at TIMESTAMP, o STRUCT<at: TIMESTAMP>"
keep = ["timestamp"]
"""
WINDOW = """
[steps.window]
kind = "window"
from = "{above}"
time = "{time}"
watermark = "1 minute"
length = "1 minute"
aggregates = {{ n = "count(*)" }}
"""


@pytest.mark.parametrize(
    ("between", "time", "expected"),
    [
        ("", "at", {"parsed": ["at"]}),
        ("", "AT", {"parsed": ["AT"]}),
        ("", "o.at", {"parsed": ["o.at"]}),
        ("", "timestamp", {}),
        ('kind = "map"\ncolumns = { b = "at" }', "b", {"parsed": ["at"]}),
        ('kind = "map"\ncolumns = { b = "id" }', "at", {"parsed": ["at"]}),
        ('kind = "map"\ncolumns = { b = "id" }\nonly = true', "at", {}),
        ('kind = "map"\ncolumns = { at = "at - INTERVAL 1 day" }', "at", {}),
        ('kind = "filter"\nwhere = "id > 0"', "at", {"parsed": ["at"]}),
        ('kind = "mask"\ncolumns = ["at"]\nhow = "null"', "at", {}),
        ('kind = "mask"\ncolumns = ["id"]\nhow = "null"', "at", {"parsed": ["at"]}),
    ],
)
def test_event_time_is_traced_to_its_parse_step(
    between: str, time: str, expected: dict[str, list[str]]
) -> None:
    step = f'\n[steps.between]\nfrom = "parsed"\n{between}\n' if between else ""
    window = WINDOW.format(above="between" if between else "parsed", time=time)
    assert event_times(pipeline_of(PARSED + step + window)) == expected


def test_stateful_steps_are_in_the_order_of_sparks_operators() -> None:
    steps = (
        PARSED
        + '[steps.unique]\nkind = "deduplicate"\nfrom = "parsed"\nkeys = ["id"]\ntime = "at"\n'
        + 'watermark = "1 minute"\n'
        + WINDOW.format(above="unique", time="at").replace('watermark = "1 minute"\n', "")
        + '[steps.top]\nkind = "top_keys"\nfrom = "unique"\ntime = "at"\nlength = "1 minute"\n'
        + 'column = "id"\nk = 3\n'
        + '[steps.query]\nkind = "sql"\nquery = "SELECT * FROM unique"\n'
        + '[steps.joined]\nkind = "join"\nfrom = "unique"\nright = "query"\non = "l.id = r.id"\n'
        + 'columns = { id = "l.id" }\n'
    )
    pipeline = pipeline_of(steps)
    assert {name: stateful_steps(pipeline, name) for name in pipeline.sinks} == {
        "parsed": [],
        "unique": ["unique"],
        "window": ["window", "unique"],
        "top": ["top", "top", "unique"],
        "query": ["query"],
        "joined": ["joined", "unique", "query"],
    }
    assert stateful_steps(pipeline, "parsed_rejects") == []
