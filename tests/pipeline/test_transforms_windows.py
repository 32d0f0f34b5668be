"""Windows with late rows, joins, correlations and top keys, compared with exact tables."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from odradek.pipeline.spec.steps import Correlate, TopKeys
from odradek.pipeline.transforms import windows
from tests.pipeline.feeding import at, feed, in_stream, seconds

READINGS = {"readings": "k STRING, v DOUBLE, at TIMESTAMP"}
STEPS = """
[steps.tumbling]
kind = "window"
from = "readings"
time = "at"
watermark = "10 seconds"
length = "10 seconds"
group_by = ["k"]
aggregates = { n = "count(*)", total = "sum(v)" }

[steps.sliding]
kind = "window"
from = "readings"
time = "at"
watermark = "10 seconds"
length = "20 seconds"
slide = "10 seconds"
aggregates = { n = "count(*)", largest = "max(v)" }

[steps.sessions]
kind = "window"
from = "readings"
time = "at"
watermark = "10 seconds"
gap = "5 seconds"
group_by = ["k"]
aggregates = { n = "count(*)" }

[steps.unique]
kind = "deduplicate"
from = "readings"
keys = ["k", "v"]
time = "at"
watermark = "10 seconds"

[steps.by_query]
kind = "sql"
query = '''
SELECT window.start AS window_start, count(*) AS n FROM readings GROUP BY window(at, '10 seconds')
'''
watermarks = { readings = { at = "10 seconds" } }
"""


def reading(k: str, v: float, at_s: float) -> dict[str, object]:
    """One row."""
    return {"k": k, "v": v, "at": at(at_s)}


BATCHES = [
    [reading("a", 1, 1), reading("a", 2, 5), reading("b", 3, 12), reading("a", 1, 2)],
    # Late, but not before the watermark, which is 2.
    [reading("a", 4, 3), reading("a", 5, 25)],
    # The watermark is 15 now; [10, 20) is open.
    [reading("b", 6, 16), reading("a", 5, 26)],
    # Too late: [0, 10) has been emitted.
    [reading("a", 100, 4), reading("b", 7, 19)],
    # All windows before 50 have ended.
    [reading("z", 0, 60)],
]


def spans(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows with the bounds of their windows in seconds."""
    return sorted(
        (seconds(row.window_start), seconds(row.window_end), *tuple(row)[2:]) for row in rows
    )


@pytest.mark.usefixtures("two_partitions")
def test_stream_windows_drop_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "readings", BATCHES)
    views = ("tumbling", "sliding", "sessions", "unique", "by_query")
    views_after = in_stream(spark, tmp_path, STEPS, views, READINGS)
    assert spans(views_after["tumbling"]) == [
        (0, 10, "a", 4, 8.0),
        (10, 20, "b", 3, 16.0),
        (20, 30, "a", 2, 10.0),
    ]
    assert spans(views_after["sliding"]) == [
        (-10, 10, 4, 4.0),
        # Still open when the row at 4 arrives, which is counted here.
        (0, 20, 8, 100.0),
        (10, 30, 5, 7.0),
        (20, 40, 2, 5.0),
    ]
    assert spans(views_after["sessions"]) == [(1, 10, "a", 4), (12, 24, "b", 3), (25, 31, "a", 2)]
    unique = sorted((row.k, row.v, seconds(row.at)) for row in views_after["unique"])
    assert unique == [
        ("a", 1.0, 1),
        ("a", 2.0, 5),
        ("a", 4.0, 3),
        ("a", 5.0, 25),
        ("b", 3.0, 12),
        ("b", 6.0, 16),
        ("b", 7.0, 19),
        ("z", 0.0, 60),
    ]
    by_query = sorted((seconds(row.window_start), row.n) for row in views_after["by_query"])
    assert by_query == [(0, 4), (10, 3), (20, 2)]


PAIRS = {"orders": "id STRING, at TIMESTAMP", "payments": "id STRING, amount DOUBLE, at TIMESTAMP"}
JOINS = """
[steps.paid_{how}]
kind = "join"
from = "orders"
right = "payments"
on = "l.id = r.id AND r.at BETWEEN l.at AND l.at + INTERVAL 10 SECONDS"
columns = {{ id = "l.id", amount = "r.amount" }}
how = "{how}"
left_time = "at"
right_time = "at"
watermark = "10 seconds"
"""
ORDERS = [
    [{"id": name, "at": at(second)} for name, second in (("o1", 0), ("o2", 1), ("o3", 2))],
    [{"id": "o4", "at": at(40)}],
    [{"id": "o5", "at": at(41)}],
    [],
    [{"id": "o6", "at": at(100)}],
]
PAYMENTS: list[list[dict[str, object]]] = [
    [{"id": "o1", "amount": 1, "at": at(5)}, {"id": "o3", "amount": 3, "at": at(30)}],
    [{"id": "o4", "amount": 4, "at": at(45)}],
    # The watermark of both is 30 now.
    [{"id": "o5", "amount": 5, "at": at(42)}],
    # Too late: its order has been dropped from the state, and emitted without a payment.
    [{"id": "o2", "amount": 2, "at": at(6)}],
    [{"id": "o9", "amount": 9, "at": at(100)}],
]


PAID = {("o1", 1.0), ("o4", 4.0), ("o5", 5.0)}
UNPAID = {("o2", None), ("o3", None)}


def test_join_of_two_streams_drops_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "orders", ORDERS)
    feed(tmp_path / "payments", PAYMENTS)
    steps = JOINS.format(how="inner") + JOINS.format(how="left")
    joined = in_stream(spark, tmp_path, steps, ["paid_inner", "paid_left"], PAIRS)
    for how, expected in (("inner", PAID), ("left", PAID | UNPAID)):
        rows = joined[f"paid_{how}"]
        assert ({tuple(row) for row in rows}, len(rows)) == (expected, len(expected))


def test_stream_joined_with_a_table_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shops.db") as connection:
        connection.execute("CREATE TABLE shops (k TEXT, town TEXT)")
        connection.executemany("INSERT INTO shops VALUES (?, ?)", [("a", "Ulm"), ("c", "Bonn")])
    connection.close()
    feed(tmp_path / "readings", [BATCHES[0], BATCHES[4]])
    steps = """
[sources.shops]
kind = "jdbc"
url = "jdbc:sqlite:shops.db"
table = "shops"

[steps.placed]
kind = "join"
from = "readings"
right = "shops"
on = "l.k = r.k"
columns = { k = "l.k", v = "l.v", town = "r.town" }
how = "left"
"""
    views_after = in_stream(spark, tmp_path, steps, ["placed"], READINGS)
    assert sorted(tuple(row) for row in views_after["placed"]) == [
        ("a", 1.0, "Ulm"),
        ("a", 1.0, "Ulm"),
        ("a", 2.0, "Ulm"),
        ("b", 3.0, None),
        ("z", 0.0, None),
    ]


def correlated(rng: np.random.Generator, r: float, count: int) -> list[tuple[float, float]]:
    """Random pairs with the correlation r."""
    x, noise = rng.normal(size=count), rng.normal(size=count)
    y = r * x + np.sqrt(1 - r * r) * noise
    return [(float(a), float(b)) for a, b in zip(x, y, strict=True)]


def test_planted_correlations_are_found(spark: SparkSession) -> None:
    rng = np.random.default_rng(9)
    table: list[tuple[Any, ...]] = []
    planted = {"near": 0.9, "against": -0.9, "none": 0.0}
    for start in (0, 100):
        for name, r in planted.items():
            pairs = correlated(rng, r, 1_500)
            table += [(name, x, y, start + rng.uniform(0, 100)) for x, y in pairs]
    table += [("constant", 1.0, float(number), 1.0) for number in range(20)]
    table += [("near", None, 5.0, 1.0), ("near", 5.0, None, 1.0)]
    rows = spark.createDataFrame(table, "k STRING, x DOUBLE, y DOUBLE, s DOUBLE")
    rows = rows.selectExpr("k", "x", "y", "timestamp_seconds(s) AS at")
    whole = {"kind": "correlate", "from": "rows", "time": "at", "x": "x", "y": "y"}
    step = Correlate.model_validate({**whole, "length": "100 seconds", "group_by": ["k"]})
    correlations = windows.correlate(rows, step).collect()
    assert len(correlations) == 2 * 3 + 1
    for row in correlations:
        if row.k == "constant":
            assert (row.r, row["count"]) == (None, 20)
        else:
            assert row.r == pytest.approx(planted[row.k], abs=0.05), row
            assert row["count"] == 1_500
    both = [(x, y) for k, x, y, _ in table if k == "near" and x is not None and y is not None]
    sliding = step.model_copy(update={"length": "200 seconds", "slide": "100 seconds"})
    rolling = {
        row["count"]: row.r for row in windows.correlate(rows, sliding).collect() if row.k == "near"
    }
    assert rolling[3_000] == pytest.approx(np.corrcoef(np.array(both).T)[0, 1], abs=1e-9)


def top(spark: SparkSession, table: list[tuple[Any, int]], column: str, k: int) -> list[Any]:
    """The most frequent values of windows of ten seconds."""
    rows = spark.createDataFrame(table, f"{column} STRING, s INT")
    rows = rows.selectExpr(column, "timestamp_seconds(1767225600 + s) AS at")
    whole = {"kind": "top_keys", "from": "rows", "time": "at", "length": "10 seconds"}
    step = TopKeys.model_validate({**whole, "column": column, "k": k})
    top_rows = windows.top_keys(rows, step)
    assert top_rows.columns == ["window_start", "window_end", "rank", column, "count", "share"]
    return spans(top_rows.collect())


def test_top_keys_order_ties_by_value_and_ignore_nulls(spark: SparkSession) -> None:
    table: list[tuple[Any, int]] = [("c", 1), ("b", 2), ("b", 3), ("a", 4), ("c", 5), (None, 6)]
    table += [("d", 9), ("d", 9), ("z", 10), ("z", 19), ("y", 11)]
    assert top(spark, table, "key", 3) == [
        (0, 10, 1, "b", 2, 0.25),
        (0, 10, 2, "c", 2, 0.25),
        (0, 10, 3, "d", 2, 0.25),
        (10, 20, 1, "z", 2, 2 / 3),
        (10, 20, 2, "y", 1, 1 / 3),
    ]
    ranked = top(spark, table[:8], "key", 10)
    assert [(row[3], row[4]) for row in ranked[3:]] == [(None, 1), ("a", 1)]


def test_planted_hot_keys_and_partitions_come_first(spark: SparkSession) -> None:
    rng = random.Random(3)
    hot = {number: f"{rng.randrange(20)}" for number in range(0, 20, 2)}
    table: list[tuple[Any, int]] = []
    for number in range(20):
        for _ in range(100):
            is_hot = number in hot and rng.random() < 0.3
            value = hot[number] if is_hot else f"{rng.randrange(20)}"
            table.append((value, number * 10 + rng.randrange(10)))
    for column in ("key", "partition"):
        first = {row[0] // 10: row[3] for row in top(spark, table, column, 1)}
        right = sum(first[number] == name for number, name in hot.items())
        print(f"hot {column}: {right} of {len(hot)} planted ones come first")
        assert right == len(hot)
