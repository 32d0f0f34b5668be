"""Every kind of step gives the same rows as a stream and as a batch."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any, get_args

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import load
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.steps import AnyStep
from odradek.pipeline.transforms.classifier import train
from tests.pipeline.feeding import BEGIN, at, feed, start

SAMPLES = Path(__file__).parent / "samples"
LENGTH_S = 60
END_S = LENGTH_S + 60
"""The end of the last compared window."""
INNER = ("parsed", "positive", "in_cents")
"""Steps that only prepare rows for others."""


def lines(number: int) -> list[dict[str, object]]:
    """Payments ordered by time, with duplicates and invalid ones."""
    rng = random.Random(11)
    rows: list[dict[str, object]] = []
    for place in range(number):
        payment = {
            "id": f"p{place}",
            "card": f"4000{place:012d}",
            "shop": rng.choice("abcdx"),
            "amount": round(rng.expovariate(1 / 40) - 2, 2),
            "at": at(place * LENGTH_S / number),
        }
        text = json.dumps(payment)
        rows += [{"value": text}] * rng.choices([1, 2], [20, 1])[0]
        if rng.random() < 0.05:
            rows.append({"value": text[:20]})
    return rows


def prepare(spark: SparkSession, folder: Path) -> PipelineSpec:
    """The sample with its table, its model and its lines."""
    for name in ("every_step.toml", "per_shop.sql"):
        shutil.copy(SAMPLES / name, folder)
    with sqlite3.connect(folder / "shops.db") as connection:
        connection.execute("CREATE TABLE shops (shop TEXT, town TEXT)")
        connection.executemany("INSERT INTO shops VALUES (?, ?)", [("a", "Ulm"), ("b", "Bonn")])
    connection.close()
    labels = [("a", "kept"), ("b", "dropped"), ("c", "kept")] * 3
    labelled = spark.createDataFrame(labels, "shop STRING, kind STRING")
    train(labelled, "shop", "kind").save(str(folder / "model"))
    rows = lines(400)
    later = {"id": "end", "card": "", "shop": "a", "amount": 1.0, "at": at(100_000)}
    batches: list[list[dict[str, object]]] = [
        rows[:200],
        rows[200:],
        [{"value": json.dumps(later)}],
    ]
    feed(folder / "lines", batches)
    return load(folder / "every_step.toml")


def rows_of(spark: SparkSession, view: str) -> list[str]:
    """The sorted rows of a view, without the row that advances the watermark.

    Numbers are rounded, since the last digits of sums depend on the order of rows.
    """
    rows = spark.table(view)
    for name, kind in rows.dtypes:
        if kind == "double":
            rows = rows.withColumn(name, F.round(name, 9))
    for name in ("window_start", "at"):
        if name in rows.columns:
            rows = rows.where(F.col(name) < F.timestamp_seconds(F.lit(BEGIN.timestamp() + END_S)))
    if "id" in rows.columns:
        rows = rows.where("id <> 'end'")
    return sorted(str(row) for row in rows.collect())


@pytest.mark.slow
def test_stream_and_batch_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = prepare(spark, tmp_path)
    used = {type(step) for step in pipeline.steps.values()}
    assert used == set(get_args(get_args(AnyStep)[0])), "the sample has every kind of step"
    compared = [name for name in pipeline.steps if name not in INNER]
    run.build(spark, pipeline, tmp_path)
    queries = [start(spark.table(name), tmp_path, name) for name in compared]
    for query in queries:
        query.awaitTermination()
    streamed: dict[str, Any] = {name: rows_of(spark, f"{name}_results") for name in compared}
    head = pipeline.pipeline.model_copy(update={"mode": "batch"})
    run.build(spark, pipeline.model_copy(update={"pipeline": head}), tmp_path)
    for name in compared:
        whole = rows_of(spark, name)
        assert len(whole) >= 4, name
        assert streamed[name] == whole, name
