"""Sinks that share one query."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import inspection, run
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.report.progress import Progress
from odradek.pipeline.spec.load import parse
from tests.pipeline.crashes import await_none, create_topics
from tests.pipeline.mirroring import content
from tests.support.broker_process import BrokerProcess
from tests.support.pipeline_job import PipelineJob

FILE = """\
[pipeline]
name = "shop"
checkpoint = "state"
mode = "available_now"
queries = "shared"

[clusters.main]
bootstrap_servers = "{address}"

[sources.lines]
kind = "files"
path = "in"
format = "text"
schema = "value STRING"
max_files_per_trigger = 1

[sources.names]
kind = "spark"
format = "json"
path = "names"
schema = "shop STRING, name STRING"
static = true

[steps.parsed]
kind = "parse"
from = "lines"
format = "json"
schema = "id INT, shop STRING"
rejects = "rejected-{suffix}"
rejects_cluster = "main"

[steps.named]
kind = "join"
from = "parsed"
right = "names"
on = "l.shop = r.shop"
columns = {{ id = "l.id", name = "r.name" }}

[steps.even]
kind = "sql"
query = "SELECT id, upper(name) AS name FROM named WHERE id % 2 = 0"

[sinks.landed]
kind = "files"
from = "parsed"
path = "landed"
format = "json"
partition_by = ["shop"]

[sinks.stored]
kind = "jdbc"
from = "named"
url = "jdbc:sqlite:{folder}/orders.db"
table = "orders"
keys = ["id"]

[sinks.copied]
kind = "kafka"
from = "even"
cluster = "main"
topic = "copied-{suffix}"
key = "id"

[sinks.once]
kind = "kafka"
from = "even"
cluster = "main"
topic = "once-{suffix}"
delivery_guarantee = "exactly_once"

[sinks.hooked]
kind = "http"
from = "even"
url = "{hook}"
"""
FILE_COUNT = 3
LOCAL = FILE.replace('rejects = "rejected-{suffix}"\nrejects_cluster = "main"\n', "").replace(
    '[clusters.main]\nbootstrap_servers = "{address}"\n', ""
)
"""The file without a cluster."""
PER_FILE = 10


def only(text: str, *sinks: str) -> str:
    """A file with some of its sinks."""
    head, *parts = text.split("[sinks.")
    return head + "".join(f"[sinks.{part}" for part in parts if part.split("]")[0] in sinks)


@contextmanager
def endpoint() -> Iterator[tuple[str, list[str]]]:
    """An HTTP endpoint: its address, and the idempotency keys of its requests."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.append(self.headers["Idempotency-Key"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_input(folder: Path) -> None:
    """Files of rows, each with one that cannot be parsed, and the table of names."""
    (folder / "in").mkdir()
    (folder / "names").mkdir()
    (folder / "names" / "0.json").write_text(
        "".join(
            json.dumps({"shop": f"s{shop}", "name": f"name {shop}"}) + "\n" for shop in range(3)
        )
    )
    for number in range(FILE_COUNT):
        ids = range(number * PER_FILE, (number + 1) * PER_FILE)
        lines = [json.dumps({"id": order, "shop": f"s{order % 3}"}) for order in ids]
        (folder / "in" / f"{number}.txt").write_text("\n".join([*lines, "no json"]) + "\n")


def landed(spark: SparkSession, folder: Path) -> list[int]:
    rows = spark.read.schema("id INT, shop STRING").json(str(folder / "landed")).collect()
    return sorted(row["id"] for row in rows)


def stored(folder: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(folder / "orders.db")) as database:
        return database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()


def check_output(
    spark: SparkSession, address: str, folder: Path, suffix: str, keys: list[str]
) -> int:
    """Check what each sink has written; returns the duplicates of the at-least-once Kafka sink."""
    count = FILE_COUNT * PER_FILE
    assert landed(spark, folder) == list(range(count))
    assert stored(folder) == [(number, f"name {number % 3}") for number in range(count)]
    even = [{"id": number, "name": f"NAME {number % 3}"} for number in range(0, count, 2)]

    def rows_of(topic: str) -> list[dict[str, object]]:
        records = content(address, f"{topic}-{suffix}")[0]
        rows = [json.loads(record.value or b"") for record in records]
        return sorted(rows, key=lambda row: row["id"])

    assert rows_of("once") == even
    copied = rows_of("copied")
    assert [row for place, row in enumerate(copied) if row not in copied[:place]] == even
    assert len(set(keys)) == len(even), "a repeated request has the same key"
    rejected = content(address, f"rejected-{suffix}")[0]
    assert {record.value for record in rejected} == {b"no json"}
    assert len(rejected) >= FILE_COUNT
    return len(copied) - len(even)


def create_output_topics(address: str, suffix: str) -> None:
    names = [f"{topic}-{suffix}" for topic in ("rejected", "copied", "once")]
    create_topics(address, *names, partitions=1)


def test_every_kind_of_sink_gets_its_rows_from_one_query(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_output_topics(broker.address, "one")
    write_input(tmp_path)
    progress = Progress()
    context: Any = spark.sparkContext._jsc
    kept_by_others = set(context.getPersistentRDDs())
    with endpoint() as (hook, keys):
        text = FILE.format(address=broker.address, suffix="one", folder=tmp_path, hook=hook)
        pipeline = parse(text, tmp_path / "shop.toml")
        built = run.build(spark, pipeline, tmp_path)
        queries = run.start_stream(built, progress.count_dead_letters)
        run.wait(pipeline, queries)
    assert [query.name for query in queries] == ["lines_shared"]
    assert queries[0].recentProgress[-1]["batchId"] == FILE_COUNT - 1
    assert sum(query_progress["numInputRows"] for query_progress in queries[0].recentProgress) == (
        FILE_COUNT * (PER_FILE + 1)
    ), "each row is read once"
    assert check_output(spark, broker.address, tmp_path, "one", keys) == 0
    (state,) = progress.queries()
    assert state.dead_letters == {"parsed": FILE_COUNT}
    assert set(context.getPersistentRDDs()) <= kept_by_others


def killed_and_finished(
    spark: SparkSession,
    address: str,
    folder: Path,
    suffix: str,
    programs: Sequence[tuple[str, ...]],
) -> int:
    """Run the file with a kill in each run, then to its end; returns what `check_output` does.

    programs  modules that are killed in batch 1, with their arguments
    """
    create_output_topics(address, suffix)
    write_input(folder)
    file = folder / "shop.toml"
    with endpoint() as (hook, keys):
        text = FILE.format(address=address, suffix=suffix, folder=folder, hook=hook)
        file.write_text(text)
        for place, program in enumerate(programs):
            job = PipelineJob(file, log=folder / f"killed-{place}.log", program=program)
            try:
                assert job.wait() == -signal.SIGKILL, job.process.tail()
            finally:
                job.close()
            await_none(job)
            commits = folder / "state" / "lines_shared" / "commits" / "1"
            assert not commits.exists(), "Spark repeats the batch"
        pipeline = parse(text, file)
        built = run.build(spark, pipeline, folder)
        run.run_stream(built, say=lambda failure, what_next: None)
    return check_output(spark, address, folder, suffix, keys)


def test_job_killed_in_a_transaction_between_two_sinks_keeps_the_promise_of_each(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    # The second transaction of the sink `once`, after `copied` and before `hooked`.
    programs = [("tests.pipeline.killed_job", "before", "2")]
    duplicates = killed_and_finished(spark, broker.address, tmp_path, "killed", programs)
    assert duplicates == PER_FILE // 2, "batch 1 was repeated after `copied` had written it"


@pytest.mark.slow
def test_job_killed_before_and_after_each_sink_keeps_the_promise_of_each(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    sinks = ("landed", "stored", "copied", "once", "hooked")
    programs = [
        ("tests.pipeline.killed_writer", when, sink, "1")
        for sink in sinks
        for when in ("before", "after")
    ]
    killed_and_finished(spark, broker.address, tmp_path, "slow", programs)


def test_failure_names_the_sink_and_the_next_run_repeats_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_input(tmp_path)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as database:
        database.execute("CREATE TABLE orders (wrong INTEGER PRIMARY KEY)")
        database.commit()
    text = only(LOCAL, "landed", "stored").format(folder=tmp_path)
    pipeline = parse(text, tmp_path / "shop.toml")

    def run_once() -> None:
        built = run.build(spark, pipeline, tmp_path)
        run.run_stream(built, say=lambda failure, what_next: None)

    with pytest.raises(PartFailed) as failed:
        run_once()
    assert failed.value.where == ("sinks", "stored")
    with closing(sqlite3.connect(tmp_path / "orders.db")) as database:
        database.execute("DROP TABLE orders")
        database.commit()
    run_once()
    count = FILE_COUNT * PER_FILE
    assert landed(spark, tmp_path) == [row[0] for row in stored(tmp_path)] == list(range(count))


def test_checkpoint_of_the_other_layout_is_refused(tmp_path: Path) -> None:
    text = only(LOCAL, "landed", "stored").format(folder=tmp_path)
    shared = parse(text, tmp_path / "shop.toml")
    own = parse(text.replace('queries = "shared"', ""), tmp_path / "shop.toml")
    run.claim(shared, tmp_path)
    message = r"queries were others: there .*lines_shared.*landed.*stored.*, here \"per_sink\""
    with pytest.raises(run.WrongCheckpoint, match=message):
        run.claim(own, tmp_path)
    run.claim(shared, tmp_path)
    (tmp_path / "state" / run.IDENTITY).unlink()
    run.claim(own, tmp_path)
    with pytest.raises(run.WrongCheckpoint, match=r"there \"per_sink\", here "):
        run.claim(shared, tmp_path)


def test_aggregate_that_the_file_does_not_show_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_input(tmp_path)
    text = only(LOCAL, "landed", "stored").format(folder=tmp_path)
    text += '\n[steps.counted]\nkind = "map"\nfrom = "parsed"\nonly = true\n'
    text += 'columns = { id = "count(*)" }\n'
    text = text.replace('from = "named"', 'from = "counted"')
    pipeline = parse(text, tmp_path / "shop.toml")
    built = run.build(spark, pipeline, tmp_path)
    with pytest.raises(PartFailed, match="aggregates, and would do so batch by batch") as failed:
        run.start_stream(built)
    assert failed.value.where == ("sinks", "stored")


def test_explain_says_which_sinks_share_a_query(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = parse(only(LOCAL, "landed", "stored").format(folder=tmp_path), tmp_path / "my.toml")
    (tmp_path / "names").mkdir()
    lines: list[str] = []
    inspection.explain(spark, pipeline, tmp_path, lines.append)
    assert "query lines_shared: one read of parsed for landed, stored" in lines
    assert "rows landed: from parsed to files" in lines
