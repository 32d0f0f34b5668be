"""Steps that look at one row at a time, and the removal of duplicates."""

from __future__ import annotations

from functools import reduce

from pyspark.ml import PipelineModel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.spec.steps import Deduplicate, Filter, Map, Mask, Route
from pipeline.transforms.windows import marked


def keep(rows: DataFrame, step: Filter, model: PipelineModel | None) -> DataFrame:
    """The rows for which every condition holds; a null never does.

    model  of `classifier.train`, for `step.model`
    """
    conditions: list[Column] = []
    if step.where is not None:
        conditions.append(F.expr(step.where))
    conditions += [F.col(name).rlike(pattern) for name, pattern in step.matches.items()]
    conditions += [F.col(name) == F.lit(value) for name, value in step.equals.items()]
    if conditions:
        rows = rows.where(reduce(lambda one, other: one & other, conditions))
    if model is None:
        return rows
    names = rows.columns
    text = F.coalesce(F.col(step.text_column).cast("string"), F.lit(""))
    judged = model.transform(rows.withColumn("_text", text))
    return judged.where(F.col("_class") == step.keep_class).select(*names)


def change(rows: DataFrame, step: Map) -> DataFrame:
    """New or changed columns; all expressions see the columns as they came."""
    columns = {name: F.expr(text) for name, text in step.columns.items()}
    if step.only:
        return rows.select(*(column.alias(name) for name, column in columns.items()))
    return rows.withColumns(columns)


def mask(rows: DataFrame, step: Mask) -> DataFrame:
    """The same rows with columns made unreadable; a null stays a null."""
    return rows.withColumns({name: _masked(F.col(name), step) for name in step.columns})


def _masked(column: Column, step: Mask) -> Column:
    text = column.cast("string")
    match step.how:
        case "hash":
            return F.sha2(F.concat(F.lit(step.salt), text), 256)
        case "last4":
            return F.regexp_replace(text, r".(?=.{4})", "*")
        case "null":
            return F.lit(None).cast("string")
        case "constant":
            return F.when(column.isNotNull(), F.lit(step.constant))


def route(rows: DataFrame, step: Route) -> DataFrame:
    """Rows with the column `topic`: where they go."""
    chosen: Column | None = None
    for topic, condition in step.rules.items():
        is_here = F.expr(condition)
        chosen = F.when(is_here, topic) if chosen is None else chosen.when(is_here, topic)
    assert chosen is not None, "a route has rules"
    rows = rows.withColumn("topic", chosen.otherwise(F.lit(step.otherwise)))
    return rows.where(F.col("topic").isNotNull()) if step.otherwise is None else rows


def deduplicate(rows: DataFrame, step: Deduplicate) -> DataFrame:
    """One row per key.

    In a stream the first one that came; a key that comes again after the watermark is new.  In a
    batch any one of them.
    """
    if not rows.isStreaming:
        return rows.dropDuplicates(step.keys)
    return marked(rows, step.time, step.watermark).dropDuplicatesWithinWatermark(step.keys)
