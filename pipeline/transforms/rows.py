"""Steps on single rows, and deduplication."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.ml import PipelineModel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, NumericType, StringType

from odradek.pipeline.spark.gateway import java
from odradek.pipeline.spec.steps import Deduplicate, Filter, Map, Mask, Route
from odradek.pipeline.transforms.columns import StepInputError, column, path_of, quoted
from odradek.pipeline.transforms.windows import with_watermark

RANK: Final = "_rank"
"""The rank of a row among those with its key."""


def keep(rows: DataFrame, step: Filter, model: PipelineModel | None) -> DataFrame:
    """The rows that meet every condition; a null meets none.

    model   of `classifier.train`, for `step.model`
    raises  StepInputError for a value in `equals` of another type than the column;
            py4j.protocol.Py4JJavaError for an invalid pattern
    """
    conditions: list[Column] = []
    if step.where is not None:
        conditions.append(F.expr(step.where))
    jvm = java(rows.sparkSession)
    for name, pattern in step.matches.items():
        # An invalid pattern fails here, not in the first batch.
        jvm.java.util.regex.Pattern.compile(pattern)
        conditions.append(column(rows, name).cast("string").rlike(pattern))
    conditions += [_is_equal(rows, name, value) for name, value in step.equals.items()]
    if conditions:
        rows = rows.where(reduce(lambda left, right: left & right, conditions))
    if model is None:
        return rows
    names = rows.columns
    text = F.coalesce(column(rows, step.text_column).cast("string"), F.lit(""))
    judged = model.transform(rows.withColumn("_text", text))
    return judged.where(F.col("_class") == step.keep_class).select(*map(quoted, names))


def _is_equal(rows: DataFrame, name: str, value: str | float | bool) -> Column:
    """The comparison with a value; Spark would fail for a value of another type."""
    value_of_row = column(rows, name)
    kind = rows.select(value_of_row).schema.fields[0].dataType
    fits = {
        bool: isinstance(kind, BooleanType),
        str: isinstance(kind, StringType | BinaryType),
    }.get(type(value), isinstance(kind, NumericType))
    if not fits:
        shown = kind.simpleString().upper()
        raise StepInputError(
            f"equals: {name} is {shown} and never {value!r}; where takes any expression"
        )
    return (value_of_row.cast("string") if isinstance(kind, BinaryType) else value_of_row) == F.lit(
        value
    )


def change(rows: DataFrame, step: Map) -> DataFrame:
    """Add or replace columns; all expressions read the columns of the input."""
    columns = {name: F.expr(text) for name, text in step.columns.items()}
    if step.only:
        return rows.select(*(column.alias(name) for name, column in columns.items()))
    return rows.withColumns(columns)


def mask(rows: DataFrame, step: Mask) -> DataFrame:
    """Mask columns; a null stays a null.

    last4 keeps the last four characters of longer texts.  hash, last4 and constant return text.

    raises  StepInputError for a name that is not a column of the rows, such as a field of one
    """
    names = {name.lower() for name in rows.columns}
    for name in step.columns:
        if name.lower() not in names:
            # withColumn would add a second column, and keep the values of the first.
            raise StepInputError(f"{name} is not a column; there are: {', '.join(rows.columns)}")
    return rows.withColumns({name: _masked(rows[quoted(name)], step) for name in step.columns})


def _masked(clear: Column, step: Mask) -> Column:
    text = clear.cast("string")
    match step.how:
        case "hash":
            return F.sha2(F.concat(F.lit(step.salt), text), 256)
        case "last4":
            shown = F.regexp_replace(text, r"(?s).(?=.{4})", "*")
            return F.when(F.length(text) > 4, shown).otherwise(F.repeat(F.lit("*"), F.length(text)))
        case "null":
            # A null of the column's type.
            return F.when(F.lit(False), clear)
        case "constant":
            return F.when(clear.isNotNull(), F.lit(step.constant))


def route(rows: DataFrame, step: Route) -> DataFrame:
    """Add the column `topic` by the rules of the step."""
    chosen: Column | None = None
    for topic, condition in step.rules.items():
        is_here = F.expr(condition)
        chosen = F.when(is_here, topic) if chosen is None else chosen.when(is_here, topic)
    assert chosen is not None, "a route has rules"
    rows = rows.withColumn("topic", chosen.otherwise(F.lit(step.otherwise)))
    return rows.where(F.col("topic").isNotNull()) if step.otherwise is None else rows


def deduplicate(rows: DataFrame, step: Deduplicate) -> DataFrame:
    """Keep one row per key; nulls are equal keys.

    In a stream it is the first row to arrive; after the watermark a key is new again.  In a batch
    it is the row with the smallest time.
    """
    if not rows.isStreaming:
        keys = [path_of(rows, key) for key in step.keys]
        order = Window.partitionBy(*keys).orderBy(path_of(rows, step.time))
        first = F.row_number().over(order)
        return rows.withColumn(RANK, first).where(F.col(RANK) == 1).drop(RANK)
    return with_watermark(rows, step.time, step.watermark).dropDuplicatesWithinWatermark(step.keys)
