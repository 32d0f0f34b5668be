"""`check --spark`, `explain` and `preview`: Spark's view of a pipeline; nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from odradek.pipeline.check.findings import Finding
from odradek.pipeline.cli import BAD_FILE, FAILED, main
from odradek.pipeline.jobs import inspection
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.load import load, parse
from tests.support.broker_process import BrokerProcess
from tests.support.tool_cache import PROJECT

WRITE_TIMEOUT_S = 60.0
RECORDS = 30
FILE = """\
[pipeline]
name = "looked-at"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "{address}"

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["previewed"]
starting_offsets = "latest"

[sources.ticks]
kind = "rate"
rows_per_second = 5

[steps.parsed]
kind = "parse"
from = "orders"
format = "json"
schema = "id BIGINT NOT NULL, at TIMESTAMP"
keep = ["key"]
rejects = "previewed-rejects"
rejects_cluster = "main"

[steps.odd]
kind = "filter"
from = "parsed"
where = "id % 2 = 1 AND upper(key) IS NOT NULL"

[steps.minutes]
kind = "window"
from = "odd"
time = "at"
watermark = "10s"
length = "1 minute"
aggregates = {{ n = "count(*)", ids = "sum(id)" }}

[sinks.out]
kind = "kafka"
from = "minutes"
cluster = "main"
topic = "previewed-out"

[sinks.files]
kind = "files"
from = "ticks"
path = "out"
format = "json"
"""
NOWHERE = FILE.format(address="127.0.0.1:1")


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command uses the session of the tests, and leaves it open."""

    @contextmanager
    def session(*_: object, **__: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(inspection, "session_of", session)


def produce(broker: BrokerProcess) -> None:
    """Write records, one of which is not JSON."""
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(RECORDS):
        value = json.dumps({"id": number, "at": f"2026-01-01T00:00:{number:02}Z"})
        producer.produce("previewed", "no json" if number == 3 else value, f"k{number}")
    assert producer.flush(WRITE_TIMEOUT_S) == 0


def test_spark_finds_nothing_in_the_files_of_this_project(
    spark: SparkSession, tmp_path: Path
) -> None:
    findings: list[Finding] = []
    for name in (
        "cleaning",
        "iot_events",
        "site_activity",
        "persistence",
        "subscription",
        "enrichment",
    ):
        path = PROJECT / f"config/pipelines/{name}.toml"
        inspection.check_plans(spark, load(path), tmp_path, findings)
    inspection.check_plans(spark, parse(NOWHERE, tmp_path / "my.toml"), tmp_path, findings)
    assert findings == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        (
            "id % 2 = 1 AND upper(key) IS NOT NULL",
            "substring(key, array(1), 2) = 'a'",
            "steps.odd",
            "array(1)",
        ),
        (
            'from = "minutes"\ncluster',
            'from = "odd"\noutput_mode = "complete"\ncluster',
            "sinks.out",
            "complete",
        ),
        (
            'where = "id % 2 = 1 AND upper(key) IS NOT NULL"',
            'matches = { key = "^c[0-9+$" }',
            "steps.odd.matches.key",
            "unclosed character class",
        ),
        ("upper(", "uper(", "steps.odd", "uper"),
        ("sum(id)", "sum(at, id)", "steps.minutes", "sum"),
    ],
)
def test_spark_finds_what_the_columns_and_the_modes_of_a_stream_do_not_allow(
    spark: SparkSession, tmp_path: Path, old: str, new: str, where: str, message: str
) -> None:
    assert old in NOWHERE
    with pytest.raises(PartFailed) as failed:
        inspection.check_plans(spark, parse(NOWHERE.replace(old, new), tmp_path), tmp_path, [])
    assert ".".join(map(str, failed.value.where)) == where
    assert message in failed.value.reason.lower()


def test_settings_of_a_file_are_compared_with_those_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = (
        "spark.sql.shufle.partitions",
        "spark.executer.memory",
        "spark.sql.of.an.extension",
        "spark.sql.adaptive.enabled",
        "spark.executor.memory",
        "spark.eventLog.enabled",
        "spark.sql.streaming.stateStore.providerClass",
    )
    lines = "".join(f'"{name}" = "x"\n' for name in names)
    text = NOWHERE.replace("\n[clusters", f"\n[pipeline.spark]\n{lines}\n[clusters", 1)
    findings: list[Finding] = []
    inspection.check_plans(spark, parse(text, tmp_path), tmp_path, findings)
    assert all(finding.is_warning for finding in findings)
    assert {finding.where[-1] for finding in findings} == {
        "spark.sql.shufle.partitions",
        "spark.executer.memory",
        "spark.sql.of.an.extension",
    }


def test_join_of_streams_without_a_watermark_is_found(spark: SparkSession, tmp_path: Path) -> None:
    join = (
        '[steps.joined]\nkind = "join"\nfrom = "odd"\nright = "ticks"\nhow = "left"\n'
        'on = "l.id = r.value"\ncolumns = { id = "l.id" }\n\n[sinks.out]'
    )
    text = NOWHERE.replace("[sinks.out]", join).replace('from = "minutes"', 'from = "joined"')
    with pytest.raises(PartFailed, match=r"sinks\.out: .*without a watermark"):
        inspection.check_plans(spark, parse(text, tmp_path), tmp_path, [])


@pytest.mark.usefixtures("in_session")
def test_explain_prints_columns_and_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(NOWHERE)
    assert main(["explain", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("step parsed: parse from orders")
    assert lines[begin + 1 : begin + 4] == [
        "    key  BINARY",
        "    id   BIGINT",
        "    at   TIMESTAMP",
    ]
    assert "step minutes: window from odd" in lines
    begin = lines.index("query out: from minutes to kafka")
    plan = "\n".join(lines[begin:])
    assert "HashAggregate" in plan or "StateStoreSave" in plan
    assert "EventTimeWatermark" in plan
    assert lines.count("query parsed_rejects: from parsed to kafka") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["my.toml"]


@pytest.mark.usefixtures("in_session")
def test_check_with_spark_reports_the_part_and_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(NOWHERE)
    assert main(["check", str(path), "--spark"]) == 0
    assert capsys.readouterr().out == f"{path}: 2 sources, 3 steps, 2 sinks\n"
    path.write_text(NOWHERE.replace("count(*)", "count(*) + id"))
    assert main(["check", str(path), "--spark"]) == FAILED
    line = NOWHERE.splitlines().index("[steps.minutes]") + 1
    assert capsys.readouterr().err.startswith(f"{path}: line {line}: steps.minutes: ")


TABLES = """\
[pipeline]
name = "tables"
checkpoint = "state"

[sources.orders]
kind = "files"
path = "orders"
format = "csv"
schema = "id INT, shop INT"

[sources.shops]
kind = "files"
path = "shops"
format = "csv"
schema = "shop INT, name STRING"
static = true

[steps.named]
kind = "join"
from = "orders"
right = "shops"
how = "left"
on = "l.shop = r.shop"
columns = { id = "l.id", name = "r.name" }

[sinks.out]
kind = "console"
from = "named"
"""


@pytest.mark.usefixtures("in_session")
def test_preview_joins_with_whole_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(TABLES)
    for name, lines in (
        ("orders", [f"{number},{5 - number}" for number in range(5)]),
        ("shops", [f"{number},shop {number}" for number in range(6)]),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.csv").write_text("\n".join(lines) + "\n")
    assert main(["preview", str(path), "--rows", "2"]) == 0
    text = re.sub(r" *\| *", "|", capsys.readouterr().out)
    table, joined = text.split("source shops: files")[1].split("step named")
    assert table.count("|shop ") == 2, "as many rows as asked for"
    assert re.findall(r"\|\d\|(shop \d|NULL)\|", joined) == ["shop 5", "shop 4"]


@pytest.mark.usefixtures("in_session")
def test_preview_prints_rows_of_each_step_and_writes_nothing(
    broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(broker)
    path = tmp_path / "my.toml"
    path.write_text(FILE.format(address=broker.address))
    admin = AdminClient({"bootstrap.servers": broker.address})
    groups = {group.group_id for group in admin.list_consumer_groups().result().valid}
    assert main(["preview", str(path), "--rows", "5"]) == 0
    text = re.sub(r" *\| *", "|", capsys.readouterr().out)
    shown = {}
    for section in text.split("\nstep ")[1:]:
        head, *rows = section.split("\ndead letters")[0].splitlines()
        shown[head] = [row for row in rows if row.startswith("|") and "id" not in row]
    assert text.startswith("source orders: kafka\n    +")
    assert len(shown["parsed: parse from orders"]) == 4
    assert "|k4|4|2026-01-01 00:00:04|" in text
    assert "no json" in text.split("dead letters of parsed")[1].split("\nstep ")[0]
    assert [line.count("|k1|1|2026") for line in shown["odd: filter from parsed"]] == [1]
    assert "|2026-01-01 00:00:00|2026-01-01 00:01:00|1|" in text
    assert main(["preview", str(path), "--rows", "2", "--step", "odd"]) == 0
    only = capsys.readouterr().out
    assert only.startswith("step odd: filter from parsed")
    assert "source" not in only
    assert "minutes" not in only
    assert main(["preview", str(path), "--step", "od"]) == BAD_FILE
    assert "there are: orders, ticks, parsed, odd, minutes" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["my.toml"]
    topics = admin.list_topics(timeout=WRITE_TIMEOUT_S).topics
    assert not {"previewed-out", "previewed-rejects"} & set(topics)
    assert {group.group_id for group in admin.list_consumer_groups().result().valid} == groups
