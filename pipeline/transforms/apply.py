"""Applies a step of a pipeline file to the views before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.ml import PipelineModel
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.spec.bounded_files import read_text
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.steps import (
    Anomalies,
    AnyStep,
    Correlate,
    Deduplicate,
    Filter,
    Join,
    Map,
    Mask,
    Python,
    Route,
    Sql,
    TopKeys,
    Udf,
    Window,
)
from odradek.pipeline.transforms import python, rows, windows
from odradek.pipeline.transforms.anomalies import find_anomalies
from odradek.pipeline.transforms.columns import StepInputError
from odradek.pipeline.transforms.parse import Decoding, parse
from odradek.pipeline.transforms.times import Bound


@dataclass(frozen=True, slots=True)
class StepResult:
    rows: DataFrame
    rejects: DataFrame | None = None
    """Records for the dead-letter topic, from rows that could not be parsed."""


def apply(
    spark: SparkSession,
    step: AnyStep,
    views: Mapping[str, DataFrame],
    folder: Path,
    bound: Bound,
    decoding: Decoding | None = None,
    keep: Callable[[DataFrame], DataFrame] | None = None,
) -> StepResult:
    """Apply a step to the views before it.

    bound   bound on the event times that advance the step's watermark
    folder  the base of relative paths of models and SQL files
    decoding  of a parse step with a registry, or of Protobuf
    keep    see `parse`
    raises  StepInputError, OSError; pyspark.errors.PySparkException for SQL that does not fit
    """
    if isinstance(step, Sql):
        return StepResult(_sql(spark, step, views, folder, bound))
    source = views[step.source]
    if isinstance(step, Deduplicate | Window | Correlate | TopKeys) and step.watermark is not None:
        source = bound.drop_ahead(source, step.time)
    match step:
        case Parse():
            return StepResult(*parse(source, step, bound, decoding, keep))
        case Filter():
            model = None if step.model is None else PipelineModel.load(str(folder / step.model))
            return StepResult(rows.keep(source, step, model))
        case Deduplicate():
            return StepResult(rows.deduplicate(source, step))
        case Window():
            return StepResult(windows.aggregate(source, step))
        case Join():
            return StepResult(_join(step, views, bound))
        case Correlate():
            return StepResult(windows.correlate(source, step))
        case TopKeys():
            return StepResult(windows.top_keys(source, step))
        case Anomalies():
            return StepResult(find_anomalies(source, step))
        case Map() | Mask() | Route() | Udf() | Python():
            return StepResult(_changed(source, step, folder))


def _changed(source: DataFrame, step: Map | Mask | Route | Udf | Python, folder: Path) -> DataFrame:
    match step:
        case Map():
            return rows.change(source, step)
        case Mask():
            return rows.mask(source, step)
        case Route():
            return rows.route(source, step)
        case Udf():
            return python.add_column(source, step, folder)
        case Python():
            return python.transformed(source, step, folder)


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
        text = read_text(folder / step.file)
    number = 0
    for view, columns in step.watermarks.items():
        if view not in views:
            raise StepInputError(
                f"watermarks: {view!r} is not a view above; there are: {', '.join(views)}"
            )
        delayed = views[view]
        for column, delay in columns.items():
            delayed = bound.drop_ahead(delayed, column, number)
            delayed = delayed.withWatermark(column, delay)
            number += 1
        delayed.createOrReplaceTempView(view)
    return spark.sql(text)
