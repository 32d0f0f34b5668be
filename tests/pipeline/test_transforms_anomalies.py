"""Anomalies in Spark: planted spikes, groups, and state over batches and restarts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.steps import Anomalies
from odradek.pipeline.transforms.anomalies import find_anomalies
from odradek.pipeline.transforms.columns import StepInputError
from odradek.pipeline.transforms.scoring import Memory
from tests.pipeline.feeding import at, document, feed

SCHEMAS = {"amounts": "id BIGINT, shop STRING, amount DOUBLE, at TIMESTAMP"}
STEPS = """
[steps.scored]
kind = "anomalies"
from = "amounts"
method = "{method}"
time = "at"
value = "amount"
group_by = ["shop"]
history = 20
threshold = 5.0

[sinks.scored_files]
kind = "files"
from = "scored"
path = "scored"
format = "json"
"""


def step(**settings: Any) -> Anomalies:
    """A step over the amounts."""
    whole = {"kind": "anomalies", "from": "amounts", "time": "at", "value": "amount"}
    return Anomalies.model_validate({"method": "zscore", **whole, **settings})


def amounts(number: int, seed: int) -> tuple[list[dict[str, Any]], dict[int, None]]:
    """Payments of three shops in the order of time, and the ids of the spikes among them."""
    rng = random.Random(seed)
    means = {"north": 10.0, "south": 300.0, "west": 5_000.0}
    rows: list[dict[str, Any]] = []
    planted: dict[int, None] = {}
    for identity in range(number):
        shop = rng.choice(list(means))
        amount = means[shop] * rng.gauss(1, 0.05)
        if identity > number // 5 and rng.random() < 0.01:
            planted[identity] = None
            amount *= rng.choice([0.2, 3.0, 8.0])
        rows.append({"id": identity, "shop": shop, "amount": amount, "at": at(identity)})
    return rows, planted


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Rows as a DataFrame."""
    table = [(row["id"], row["shop"], row["amount"], row["at"]) for row in rows]
    read = spark.createDataFrame(table, "id BIGINT, shop STRING, amount DOUBLE, at STRING")
    return read.selectExpr("id", "shop", "amount", "CAST(at AS TIMESTAMP) AS at")


@pytest.mark.parametrize("method", ["zscore", "ewma"])
def test_planted_spikes_are_found(spark: SparkSession, method: str) -> None:
    rows, planted = amounts(6_000, seed=4)
    settings_of_step = step(method=method, group_by=["shop"], threshold=6.0)
    anomalies = find_anomalies(frame(spark, rows), settings_of_step).where("is_anomaly").collect()
    right = sum(row.id in planted for row in anomalies)
    precision, recall = right / len(anomalies), right / len(planted)
    print(f"{method}: {len(planted)} planted, precision {precision:.3f}, recall {recall:.3f}")
    assert precision >= 0.95
    assert recall >= 0.95


def expected(rows: list[dict[str, Any]], settings_of_step: Anomalies) -> dict[int, tuple[Any, ...]]:
    """The results of the pure functions for the rows, group by group."""
    memories: dict[str, Memory] = {}
    rows_by_id: dict[int, tuple[Any, ...]] = {}
    for row in rows:
        memory = memories.setdefault(row["shop"], Memory(settings_of_step))
        scored = memory.judge(row["amount"])
        rows_by_id[row["id"]] = (scored.score, scored.expected, scored.is_anomaly)
    return rows_by_id


@pytest.mark.usefixtures("two_partitions")
@pytest.mark.parametrize("method", ["zscore", "ewma"])
def test_stream_keeps_state_over_batches_and_restarts(
    spark: SparkSession, tmp_path: Path, method: str
) -> None:
    rows, _ = amounts(300, seed=7)
    shuffled = [rows[begin : begin + 100] for begin in range(0, 300, 100)]
    for batch in shuffled:
        # Rows of a batch may be in any order.
        random.Random(1).shuffle(batch)
    text = document(STEPS.format(method=method), "available_now", SCHEMAS)
    text = text.replace('[sinks.unused]\nkind = "console"\nfrom = "amounts"\n', "")
    for first, batches in ((0, shuffled[:2]), (2, shuffled[2:])):
        feed(tmp_path / "amounts", batches, first)
        pipeline = parse(text, tmp_path / "my.toml")
        built = run.build(spark, pipeline, tmp_path)
        run.wait(pipeline, run.start_stream(built))
    streamed = spark.read.schema(
        "id BIGINT, shop STRING, score DOUBLE, expected DOUBLE, is_anomaly BOOLEAN"
    ).json(str(tmp_path / "scored"))
    results = {row.id: (row.score, row.expected, row.is_anomaly) for row in streamed.collect()}
    settings_of_step = step(method=method, group_by=["shop"], history=20, threshold=5.0)
    expected_results = expected(rows, settings_of_step)
    assert any(is_anomaly for _, _, is_anomaly in expected_results.values())
    assert results == expected_results
    whole = find_anomalies(frame(spark, rows), settings_of_step).collect()
    assert {row.id: (row.score, row.expected, row.is_anomaly) for row in whole} == expected_results


def test_columns_of_every_type_are_unchanged(spark: SparkSession) -> None:
    big = (1 << 62) + 1
    table = spark.sql(f"""
        SELECT * FROM VALUES
          ({big}L, 1, 'a', 1.5D, TIMESTAMP'2026-01-01 00:00:00.123456', 1.10BD, true, array(1),
           X'00FF'),
          (NULL, NULL, NULL, NULL, TIMESTAMP'2026-01-01 00:00:01', NULL, NULL, NULL, NULL),
          (NULL, NULL, NULL, 2.5D, TIMESTAMP'9999-01-01 00:00:00', NULL, NULL, NULL, NULL),
          (3L, 3, 'c', 3.5D, NULL, 3.30BD, false, array(1, NULL), X'')
        AS t(l, i, s, amount, at, d, b, r, y)""")
    marked = find_anomalies(table, step())
    assert marked.columns == [*table.columns, "score", "expected", "is_anomaly"]
    assert marked.drop("score", "expected", "is_anomaly").schema.simpleString() == (
        table.schema.simpleString()
    )
    texts = [f"CAST({name} AS STRING) AS {name}" for name in table.columns if name != "y"]
    expected_rows = table.where("amount IS NOT NULL").selectExpr(*texts, "hex(y) AS y").collect()
    got = marked.selectExpr(*texts, "hex(y) AS y").collect()
    assert sorted(got, key=str) == sorted(expected_rows, key=str)


@pytest.mark.parametrize(
    ("settings", "column", "message"),
    [
        ({"value": "shop"}, "id", "value = 'shop' is STRING, not a number"),
        ({"time": "shop"}, "id", "time = 'shop' is STRING, not a time"),
        ({}, "score", "there is a column score already"),
    ],
)
def test_unsuitable_columns_are_an_error(
    spark: SparkSession, settings: dict[str, Any], column: str, message: str
) -> None:
    rows = frame(spark, amounts(3, seed=1)[0]).withColumnRenamed("id", column)
    with pytest.raises(StepInputError, match=message):
        find_anomalies(rows, step(**settings))


def test_anomalies_step_ends_a_watermark() -> None:
    window = """
[steps.counts]
kind = "window"
from = "scored"
time = "at"
watermark = "1 minute"
length = "10 seconds"
aggregates = { n = "count(*)" }
"""
    once = """
[steps.once]
kind = "deduplicate"
from = "amounts"
keys = ["id"]
time = "at"
watermark = "1 minute"
"""
    scored = STEPS.format(method="ewma").replace('from = "amounts"', 'from = "once"')
    text = document(once + scored + window, "stream", SCHEMAS)
    assert list(parse(text, Path("my.toml")).steps) == ["once", "scored", "counts"]
    with pytest.raises(SpecError, match=r"steps\.counts: a stream needs a watermark here"):
        parse(text.replace('watermark = "1 minute"\nlength', "length"), Path("my.toml"))
