"""Steps over windows of event time, and joins."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from odradek.pipeline.spec.steps import Correlate, Join, TopKeys, Window
from odradek.pipeline.transforms.columns import column, path_of, quoted


def _bounds(window: str = "window") -> list[Column]:
    return [
        F.col(f"{window}.start").alias("window_start"),
        F.col(f"{window}.end").alias("window_end"),
    ]


def _window(time: str, length: str, slide: str | None) -> Column:
    return F.window(time, length, slide) if slide is not None else F.window(time, length)


def with_watermark(rows: DataFrame, time: str, watermark: str | None) -> DataFrame:
    """Set a watermark, unless it is None: an earlier step has set it."""
    return rows if watermark is None else rows.withWatermark(time, watermark)


def aggregate(rows: DataFrame, step: Window) -> DataFrame:
    """One row per window and group; see `Window`."""
    time = path_of(rows, step.time)
    if step.gap is not None:
        window = F.session_window(time, step.gap)
    else:
        assert step.length is not None, "a window has a length or a gap"
        window = _window(time, step.length, step.slide)
    aggregates = [F.expr(text).alias(name) for name, text in step.aggregates.items()]
    grouped = with_watermark(rows, step.time, step.watermark).groupBy(
        window.alias("window"), *_groups(rows, step.group_by)
    )
    names = map(quoted, (*step.group_by, *step.aggregates))
    return grouped.agg(*aggregates).select(*_bounds(), *names)


def _groups(rows: DataFrame, names: list[str]) -> list[Column]:
    return [column(rows, name).alias(name) for name in names]


def join(left: DataFrame, right: DataFrame, step: Join) -> DataFrame:
    """Rows of both sides; see `Join`.

    For two streams `on` must bound the time between the rows, or the state grows without bound.
    """
    if step.left_time is not None and step.watermark is not None:
        left = with_watermark(left, step.left_time, step.watermark)
    if step.right_time is not None and step.watermark is not None:
        right = with_watermark(right, step.right_time, step.watermark)
    joined = left.alias("l").join(right.alias("r"), F.expr(step.on), step.how)
    return joined.select(*(F.expr(text).alias(name) for name, text in step.columns.items()))


def correlate(rows: DataFrame, step: Correlate) -> DataFrame:
    """Pearson's r per window and group; null where a column is constant.

    `count` counts the rows in which neither column is null.
    """
    window = _window(path_of(rows, step.time), step.length, step.slide).alias("window")
    x, y = F.expr(step.x).cast("double"), F.expr(step.y).cast("double")
    groups = _groups(rows, step.group_by)
    grouped = with_watermark(rows, step.time, step.watermark).groupBy(window, *groups)
    x, y = F.when(y.isNotNull(), x), F.when(x.isNotNull(), y)
    # Spark's own corr fails for a constant column.
    r = F.try_divide(F.covar_pop(x, y), F.stddev_pop(x) * F.stddev_pop(y))
    result = grouped.agg(r.alias("r"), F.count(x).alias("count"))
    correlation = F.when(~F.isnan("r"), F.col("r")).alias("r")
    return result.select(*_bounds(), *map(quoted, step.group_by), correlation, "count")


def top_keys(rows: DataFrame, step: TopKeys) -> DataFrame:
    """The most frequent values per window; of equally frequent ones the smaller first.

    One task holds the counts of all values of a window: about 10 million values at most.
    """
    window = F.window(path_of(rows, step.time), step.length)
    counts = (
        with_watermark(rows, step.time, step.watermark)
        .groupBy(window.alias("window"), column(rows, step.column).alias("key"))
        .agg(F.count("*").alias("count"))
    )
    ranked = F.sort_array(F.collect_list(F.struct(-F.col("count"), F.col("key"))))
    # The counts of a window are emitted at its end; the second aggregation uses the same windows.
    tops = counts.groupBy(F.window(F.window_time("window"), step.length).alias("window")).agg(
        F.sum("count").alias("total"), F.slice(ranked, 1, step.k).alias("ranked")
    )
    listed = tops.select("window", "total", F.posexplode("ranked").alias("place", "one"))
    count = -F.col("one")["col1"]
    return listed.select(
        *_bounds(),
        (F.col("place") + 1).alias("rank"),
        F.col("one")["key"].alias(step.column),
        count.alias("count"),
        (count / F.col("total")).alias("share"),
    )
