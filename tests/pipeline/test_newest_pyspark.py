"""The newest PySpark, as users install it: sources, sinks, state in Python, and a mirror."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.pipeline import mirroring
from tests.pipeline.crashes import create_topics, read_topic
from tests.pipeline.topics import produce
from tests.support import newest_pyspark
from tests.support.broker_process import odradek_broker
from tests.support.class_archives import NEWEST_SPARK, options, spark_environment
from tests.support.processes import LoggedProcess

END_TIMEOUT_S = 600.0
ROWS = 200
BEGIN_MS = 1_767_225_600_000
ODD = 150
FILE = """\
[pipeline]
name = "newest"
checkpoint = "state"
mode = "available_now"
queries = "shared"

[pipeline.spark]
"spark.driver.memory" = "512m"
"spark.jars.packages" = "org.postgresql:postgresql:42.7.4"

[clusters.main]
bootstrap_servers = "{address}"

[sources.rows]
kind = "kafka"
cluster = "main"
subscribe = ["readings"]

[sources.names]
kind = "files"
path = "names"
format = "json"
schema = "id BIGINT, at TIMESTAMP"
epoch = "s"

[sources.towns]
kind = "files"
path = "towns"
format = "csv"
schema = "id BIGINT, town STRING"
options = {{ header = true }}
static = true
refresh = "1 minute"

[steps.placed]
kind = "join"
from = "names"
right = "towns"
on = "l.id = r.id"
columns = {{ id = "l.id", town = "r.town" }}

[steps.parsed]
kind = "parse"
from = "rows"
format = "json"
schema = "id BIGINT NOT NULL, value DOUBLE NOT NULL, at TIMESTAMP NOT NULL"
epoch = "ms"

[steps.unique]
kind = "deduplicate"
from = "parsed"
keys = ["id"]
time = "at"
watermark = "10s"

[steps.counted]
kind = "window"
from = "unique"
time = "at"
length = "10s"
aggregates = {{ n = "count(*)" }}

[steps.scored]
kind = "anomalies"
from = "unique"
method = "zscore"
time = "at"
value = "value"

[steps.odd]
kind = "filter"
from = "scored"
where = "is_anomaly"

[sinks.windows]
kind = "jdbc"
from = "counted"
url = "jdbc:sqlite:windows.db"
table = "windows"
keys = ["window_start"]
output_mode = "update"

[sinks.alarms]
kind = "kafka"
from = "odd"
cluster = "main"
topic = "alarms"

[sinks.landed]
kind = "files"
from = "names"
path = "landed"
format = "json"

[sinks.placed]
kind = "files"
from = "placed"
path = "placed"
format = "json"
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_pipelines_and_mirrors_run_on_the_newest_pyspark(tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.mkdir()
    (names / "one.json").write_text('{"id": 1, "at": 1767225600}\n{"id": 2, "at": "x"}\n')
    towns = tmp_path / "towns"
    towns.mkdir()
    (towns / "one.csv").write_text("id,town\n2,Ghent\n")
    with odradek_broker(tmp_path / "east") as east, odradek_broker(tmp_path / "west") as west:
        create_topics(east.address, "readings", "alarms", partitions=2)
        produce(east.address, "readings", [reading(number) for number in [*range(ROWS), 7]])
        mirror = mirroring.file(east.address, west.address, name="newest", pattern="readings")
        with started(tmp_path / "newest.toml", "run", FILE.format(address=east.address)) as job:
            # Ivy no longer writes to the folder that both jobs use.
            job.wait_for_line("is used$", timeout_s=END_TIMEOUT_S)
            with started(tmp_path / "mirror.toml", "mirror", mirror) as other:
                finish(job)
                finish(other)

        (alarm,) = read_topic(east.address, "alarms")
        assert json.loads(alarm)["id"] == ODD
        mirrored = mirroring.content(west.address, "east.readings")
        assert mirrored == mirroring.content(east.address, "readings")
    with closing(sqlite3.connect(tmp_path / "windows.db")) as database:
        counts = database.execute("SELECT n FROM windows ORDER BY window_start").fetchall()
    assert counts == [(10,)] * (ROWS // 10), "what came twice counts once"
    assert rows_of(tmp_path / "placed") == [{"id": 2, "town": "Ghent"}]
    assert (tmp_path / "state" / "names_shared").is_dir(), "two sinks share a query"
    assert sorted(rows_of(tmp_path / "landed"), key=lambda row: str(row["id"])) == [
        {"id": 1, "at": "2026-01-01T00:00:00.000Z"},
        {"id": 2},
    ]


def rows_of(folder: Path) -> list[dict[str, object]]:
    """The rows of the files of a sink."""
    parts = folder.glob("*.json")
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def reading(number: int) -> bytes:
    """A reading per second; one of them is an anomaly."""
    value = 1_000.0 if number == ODD else float(number % 5)
    return json.dumps({"id": number, "value": value, "at": BEGIN_MS + number * 1_000}).encode()


def started(path: Path, command: str, text: str) -> LoggedProcess:
    """Within, the command runs with a file."""
    path.write_text(text)
    words = [str(newest_pyspark.python()), "-m", "odradek.pipeline.cli", command, str(path)]
    return LoggedProcess(
        [*words, "--master", "local[2]"],
        log=path.with_suffix(".log"),
        folder=path.parent,
        environment={
            **newest_pyspark.environment(),
            # Spark's own settings: other tests compile no code.
            **spark_environment(options(NEWEST_SPARK)),
            "PYTHONUNBUFFERED": "1",
        },
    )


def finish(process: LoggedProcess) -> None:
    """Wait for exit code 0, and check that only our own lines are printed."""
    assert process.wait(timeout_s=END_TIMEOUT_S) == 0, process.tail()
    foreign = ("Ivy", "log4j", "::", "Warning", "Traceback")
    assert [line for line in process.lines() if any(name in line for name in foreign)] == []
