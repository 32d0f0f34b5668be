"""Queries that are started again after a failure."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.jobs.restarts import RestartTimes
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.sinks import Restart

FILE = """\
[pipeline]
name = "orders"
checkpoint = "state"
mode = "available_now"

[sources.orders]
kind = "files"
path = "orders"
format = "json"
schema = "id INT"
max_files_per_trigger = 1

[sinks.table]
kind = "jdbc"
from = "orders"
url = "jdbc:sqlite:away/orders.db"
table = "orders"
keys = ["id"]
restart = {{ backoff_min = "200 ms", backoff_max = "400 ms"{attempts} }}

[sinks.files]
kind = "files"
from = "orders"
path = "copied"
format = "json"
"""
FILE_COUNT = 3


def run_with_restarts(
    spark: SparkSession, folder: Path, attempts: str, repair_after: int | None
) -> list[str]:
    """Run the file while the folder of the database is away; returns what was said.

    repair_after  the folder is made after so many failures
    """
    (folder / "orders").mkdir()
    for number in range(FILE_COUNT):
        (folder / "orders" / f"{number}.json").write_text(json.dumps({"id": number}) + "\n")
    warnings: list[str] = []

    def say(failure: PartFailed, what_next: str) -> None:
        assert failure.where == ("sinks", "table")
        warnings.append(what_next)
        if len(warnings) == repair_after:
            (folder / "away").mkdir()

    pipeline = parse(FILE.format(attempts=attempts), folder / "my.toml")
    built = run.build(spark, pipeline, folder)
    run.run_stream(built, say=say)
    return warnings


def written(folder: Path) -> tuple[list[int], list[int]]:
    """The ids in the table and in the files."""
    with closing(sqlite3.connect(folder / "away" / "orders.db")) as database:
        rows = [row[0] for row in database.execute("SELECT id FROM orders ORDER BY id")]
    files = (folder / "copied").glob("*.json")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return rows, sorted(json.loads(line)["id"] for line in lines)


def test_sink_that_is_away_for_a_while_gets_all_rows_and_ends_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    warnings = run_with_restarts(spark, tmp_path, "", repair_after=3)
    assert warnings == ["starts again in 0.2 s", *["starts again in 0.4 s"] * 2]
    assert written(tmp_path) == (list(range(FILE_COUNT)), list(range(FILE_COUNT)))


def test_sink_that_stays_away_ends_the_pipeline_after_its_attempts(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PartFailed, match=r"^sinks\.table: "):
        run_with_restarts(spark, tmp_path, ", attempts_max = 2", repair_after=None)
    assert not (tmp_path / "away").exists()


def test_sink_without_a_policy_of_its_own_has_that_of_the_pipeline() -> None:
    text = FILE.format(attempts="").replace("[sources", "[pipeline.restart]\n[sources", 1)
    policies = parse(text, Path("my.toml")).restarts()
    assert {name: policy.backoff_max for name, policy in policies.items()} == {
        "table": "400 milliseconds",
        "files": "1 minute",
    }


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"available_now"', '"batch"', "a batch is not started again"),
        ('"200 ms"', '"2 s"', "backoff_min is above backoff_max, 400 milliseconds"),
        ('"200 ms"', '"soon"', "'soon' is not a duration"),
    ],
)
def test_impossible_policy_is_refused(before: str, after: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(FILE.format(attempts="").replace(before, after), Path("my.toml"))


@given(
    failures=st.lists(st.booleans(), min_size=1, max_size=40),
    attempts_max=st.none() | st.integers(0, 20),
)
def test_delays_double_up_to_the_bound_and_begin_again_after_a_batch(
    failures: list[bool], attempts_max: int | None
) -> None:
    policy = Restart(backoff_min="3 s", backoff_max="20 s", attempts_max=attempts_max)
    times = RestartTimes({"out": policy})
    expected: Iterator[int] = iter([])
    now_ms = in_a_row = 0
    for has_worked in failures:
        if has_worked or not in_a_row:
            expected, in_a_row = iter([3_000, 6_000, 12_000]), 0
        in_a_row += 1
        delay_ms = times.note_failure("out", has_worked=has_worked, now_ms=now_ms)
        if attempts_max is not None and in_a_row > attempts_max:
            assert delay_ms is None
            return
        assert delay_ms is not None
        assert delay_ms == next(expected, 20_000)
        assert times.take_due(now_ms + delay_ms - 1) is None
        now_ms += delay_ms
        assert times.take_due(now_ms) == "out"
        assert not times


def test_queries_without_a_policy_have_no_delay() -> None:
    times = RestartTimes({"out": Restart()})
    assert times.note_failure("other", has_worked=True, now_ms=0) is None
    assert times.take_due(1 << 40) is None
