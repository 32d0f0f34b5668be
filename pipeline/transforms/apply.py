"""Applies a step of a pipeline file to the views before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.ml import PipelineModel
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.spec import steps
from odradek.pipeline.spec.bounded_files import read_text
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.transforms import python, rows, windows
from odradek.pipeline.transforms.anomalies import find_anomalies
from odradek.pipeline.transforms.columns import StepInputError
from odradek.pipeline.transforms.parse import Decoding, parse
from odradek.pipeline.transforms.times import Bound

OF_ROWS: Final[Mapping[type[steps.AnyStep], Callable[[DataFrame, Any], DataFrame]]] = {
    steps.Map: rows.change,
    steps.Mask: rows.mask,
    steps.Route: rows.route,
    steps.Deduplicate: rows.deduplicate,
    steps.Window: windows.aggregate,
    steps.Correlate: windows.correlate,
    steps.TopKeys: windows.top_keys,
    steps.Anomalies: find_anomalies,
}
"""Steps that need nothing but the rows of `from`."""


@dataclass(frozen=True, slots=True)
class StepResult:
    rows: DataFrame
    rejects: DataFrame | None = None
    """Records for the dead-letter topic, from rows that could not be parsed."""


def apply(
    spark: SparkSession,
    step: steps.AnyStep,
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
    if isinstance(step, steps.Sql):
        return StepResult(_sql(spark, step, views, folder, bound))
    source = views[step.source]
    if isinstance(step, steps.WithWatermark) and step.watermark is not None:
        source = bound.drop_ahead(source, step.time)
    match step:
        case Parse():
            return StepResult(*parse(source, step, bound, decoding, keep))
        case steps.Filter():
            model = None if step.model is None else PipelineModel.load(str(folder / step.model))
            return StepResult(rows.keep(source, step, model))
        case steps.Join():
            return StepResult(_join(step, views, bound))
        case steps.Udf():
            return StepResult(python.add_column(source, step, folder))
        case steps.Python():
            return StepResult(python.transformed(source, step, folder))
    return StepResult(OF_ROWS[type(step)](source, step))


def _join(step: steps.Join, views: Mapping[str, DataFrame], bound: Bound) -> DataFrame:
    left, right = views[step.source], views[step.right]
    if step.left_time is not None:
        left = bound.drop_ahead(left, step.left_time)
    if step.right_time is not None:
        right = bound.drop_ahead(right, step.right_time, number=1)
    return windows.join(left, right, step)


def _sql(
    spark: SparkSession, step: steps.Sql, views: Mapping[str, DataFrame], folder: Path, bound: Bound
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
