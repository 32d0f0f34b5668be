"""From a step of a pipeline file to its function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.ml import PipelineModel
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.spec.steps import (
    Anomalies,
    AnyStep,
    Correlate,
    Deduplicate,
    Filter,
    Join,
    Map,
    Mask,
    Parse,
    Route,
    Sql,
    TopKeys,
    Window,
)
from odradek.pipeline.transforms import rows, windows
from odradek.pipeline.transforms.anomalies import find_anomalies
from odradek.pipeline.transforms.parse import parse
from odradek.pipeline.transforms.times import Bound
from odradek.pipeline.transforms.unfit import Unfit


@dataclass(frozen=True, slots=True)
class Applied:
    """What a step makes."""

    rows: DataFrame
    rejects: DataFrame | None = None
    """What did not parse, as records for a dead-letter topic."""


def apply(
    spark: SparkSession, step: AnyStep, views: Mapping[str, DataFrame], folder: Path, bound: Bound
) -> Applied:
    """Do one step over the views above it.

    bound   for the event times of which the step makes a watermark
    folder  where relative paths of models and SQL files begin
    raises  Unfit, OSError; pyspark.errors.PySparkException for SQL that does not fit
    """
    if isinstance(step, Sql):
        return Applied(_sql(spark, step, views, folder, bound))
    source = views[step.source]
    if isinstance(step, Deduplicate | Window | Correlate | TopKeys) and step.watermark is not None:
        source = bound.drop_ahead(source, step.time)
    match step:
        case Parse():
            return Applied(*parse(source, step, bound))
        case Filter():
            model = None if step.model is None else PipelineModel.load(str(folder / step.model))
            return Applied(rows.keep(source, step, model))
        case Map():
            return Applied(rows.change(source, step))
        case Mask():
            return Applied(rows.mask(source, step))
        case Route():
            return Applied(rows.route(source, step))
        case Deduplicate():
            return Applied(rows.deduplicate(source, step))
        case Window():
            return Applied(windows.aggregate(source, step))
        case Join():
            return Applied(_join(step, views, bound))
        case Correlate():
            return Applied(windows.correlate(source, step))
        case TopKeys():
            return Applied(windows.top_keys(source, step))
        case Anomalies():
            return Applied(find_anomalies(source, step))


def _join(step: Join, views: Mapping[str, DataFrame], bound: Bound) -> DataFrame:
    left, right = views[step.source], views[step.right]
    if step.left_time is not None:
        left = bound.drop_ahead(left, step.left_time)
    if step.right_time is not None:
        right = bound.drop_ahead(right, step.right_time, number=1)
    return windows.join(left, right, step)


def _sql(
    spark: SparkSession, step: Sql, views: Mapping[str, DataFrame], folder: Path, bound: Bound
) -> DataFrame:
    text = step.query
    if text is None:
        assert step.file is not None, "a query or a file"
        text = (folder / step.file).read_text(encoding="utf-8")
    number = 0
    for view, columns in step.watermarks.items():
        if view not in views:
            raise Unfit(f"watermarks: {view!r} is no view above; there are: {', '.join(views)}")
        delayed = views[view]
        for column, delay in columns.items():
            delayed = bound.drop_ahead(delayed, column, number)
            delayed = delayed.withWatermark(column, delay)
            number += 1
        delayed.createOrReplaceTempView(view)
    return spark.sql(text)
