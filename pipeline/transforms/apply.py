"""From a step of a pipeline file to its function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pipeline.spec.steps import AnyStep, Sql


@dataclass(frozen=True, slots=True)
class Applied:
    """What a step makes."""

    rows: DataFrame
    rejects: DataFrame | None = None
    """What did not parse, as records for a dead-letter topic."""


def apply(
    spark: SparkSession, step: AnyStep, views: Mapping[str, DataFrame], folder: Path
) -> Applied:
    """Do one step over the views above it."""
    match step:
        case Sql():
            text = step.query
            if text is None:
                assert step.file is not None, "a query or a file"
                text = (folder / step.file).read_text(encoding="utf-8")
            for view, columns in step.watermarks.items():
                rows = views[view]
                for column, delay in columns.items():
                    rows = rows.withWatermark(column, delay)
                rows.createOrReplaceTempView(view)
            return Applied(spark.sql(text))
        case _:
            raise NotImplementedError(step.kind)
