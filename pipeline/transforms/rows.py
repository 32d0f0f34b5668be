"""Steps that look at one row at a time, and the removal of duplicates."""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

from pyspark.ml import PipelineModel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, NumericType, StringType

from odradek.pipeline.spec.steps import Deduplicate, Filter, Map, Mask, Route
from odradek.pipeline.transforms.columns import column, path_of, quoted
from odradek.pipeline.transforms.unfit import Unfit
from odradek.pipeline.transforms.windows import marked

PLACE: Final = "_place"
"""Of a row among those with its key."""


def keep(rows: DataFrame, step: Filter, model: PipelineModel | None) -> DataFrame:
    """The rows for which every condition holds; a null never does.

    model   of `classifier.train`, for `step.model`
    raises  Unfit for a value in `equals` that no row can have; py4j.protocol.Py4JJavaError for a
            pattern that is none
    """
    conditions: list[Column] = []
    if step.where is not None:
        conditions.append(F.expr(step.where))
    jvm: Any = rows.sparkSession._jvm
    for name, pattern in step.matches.items():
        # A pattern that is none shall be told now, not by the first batch.
        jvm.java.util.regex.Pattern.compile(pattern)
        conditions.append(column(rows, name).cast("string").rlike(pattern))
    conditions += [_is_equal(rows, name, value) for name, value in step.equals.items()]
    if conditions:
        rows = rows.where(reduce(lambda one, other: one & other, conditions))
    if model is None:
        return rows
    names = rows.columns
    text = F.coalesce(column(rows, step.text_column).cast("string"), F.lit(""))
    judged = model.transform(rows.withColumn("_text", text))
    return judged.where(F.col("_class") == step.keep_class).select(*map(quoted, names))


def _is_equal(rows: DataFrame, name: str, value: str | float | bool) -> Column:
    """Values of other types are never equal; Spark would end the query at the first of them."""
    known = column(rows, name)
    kind = rows.select(known).schema.fields[0].dataType
    fits = {
        bool: isinstance(kind, BooleanType),
        str: isinstance(kind, StringType | BinaryType),
    }.get(type(value), isinstance(kind, NumericType))
    if not fits:
        shown = kind.simpleString().upper()
        raise Unfit(f"equals: {name} is {shown} and never {value!r}; where takes any expression")
    return (known.cast("string") if isinstance(kind, BinaryType) else known) == F.lit(value)


def change(rows: DataFrame, step: Map) -> DataFrame:
    """New or changed columns; all expressions see the columns as they came."""
    columns = {name: F.expr(text) for name, text in step.columns.items()}
    if step.only:
        return rows.select(*(one.alias(name) for name, one in columns.items()))
    return rows.withColumns(columns)


def mask(rows: DataFrame, step: Mask) -> DataFrame:
    """The same rows with columns made unreadable; a null stays a null.

    last4 leaves the last four characters of longer texts only.  hash, last4 and constant make text.

    raises  Unfit for a name that is no column of the rows, such as that of a field in one
    """
    known = {name.lower() for name in rows.columns}
    for name in step.columns:
        if name.lower() not in known:
            # A new column of that name would leave the old one readable.
            raise Unfit(f"{name} is no column; there are: {', '.join(rows.columns)}")
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
            # Of the column's own type.
            return F.when(F.lit(False), clear)
        case "constant":
            return F.when(clear.isNotNull(), F.lit(step.constant))


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
    """One row per key; nulls are one key.

    In a stream the first one that came; a key that comes again after the watermark is new.  In a
    batch the one with the least time.
    """
    if not rows.isStreaming:
        keys = [path_of(rows, key) for key in step.keys]
        order = Window.partitionBy(*keys).orderBy(path_of(rows, step.time))
        first = F.row_number().over(order)
        return rows.withColumn(PLACE, first).where(F.col(PLACE) == 1).drop(PLACE)
    return marked(rows, step.time, step.watermark).dropDuplicatesWithinWatermark(step.keys)
