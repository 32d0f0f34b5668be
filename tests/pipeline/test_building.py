"""Pipelines that are built, tested and run in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from odradek.pipeline import Pipeline
from odradek.pipeline.spec.problems import SpecError


def orders(folder: Path) -> Pipeline:
    """Orders by shop."""
    columns = "shop STRING, amount BIGINT"
    return (
        Pipeline("orders", folder=folder)
        .source("orders", "files", path="in", format="json", schema=columns)
        .step("large", "filter", source="orders", where="amount > 1")
        .sink("out", "files", source="large", path="out", format="json")
    )


def test_built_pipeline_is_tested_and_run(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = orders(tmp_path)
    given = {"orders": [{"shop": "a", "amount": 1}, {"shop": "b", "amount": 2}]}
    assert [tuple(row) for row in pipeline.test(spark, "large", given)] == [("b", 2)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"shop": "c", "amount": 3}\n')
    assert [tuple(row) for row in pipeline.views(spark)["large"].collect()] == [("c", 3)]
    pipeline.run(spark)
    (written,) = (tmp_path / "out").glob("part-*.json")
    assert json.loads(written.read_text()) == {"shop": "c", "amount": 3}


def test_mistakes_are_all_reported(tmp_path: Path) -> None:
    pipeline = orders(tmp_path).step("odd", "filtre", source="large").sink("x", "console", rows=0)
    with pytest.raises(SpecError) as caught:
        pipeline.checked()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("pipeline: steps.odd.kind: 'filtre' is not allowed")
    assert len(lines) == 3
