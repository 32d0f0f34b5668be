"""Finds anomalies per group, in order of time; a stream keeps the groups in Spark's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pandas as pd
import pyarrow
import pyspark
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DoubleType,
    LongType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.pipeline.spec.steps import Anomalies
from odradek.pipeline.transforms.columns import StepInputError, column, quoted
from odradek.pipeline.transforms.scoring import Memory

ALL: Final = "_all"
"""The group of all rows, when no columns are given."""
TIME: Final = "_time"
VALUE: Final = "_value"
ADDED: Final = ("score", "expected", "is_anomaly")
STATE: Final = "memory STRING"
"""A string of JSON: Spark 4.0 cannot return an array in a state to Python."""
ARROW_OF_SPARK_4_0_END: Final = 21
FIRST: Final = -(1 << 63)
"""The time of rows without a time, which so precede all others."""


def find_anomalies(rows: DataFrame, step: Anomalies) -> DataFrame:
    """Add score (in deviations), expected and is_anomaly to each row.

    Rows with a null value are dropped; rows without a time are first.  A stream orders rows within
    each batch.  The result has no watermark.

    raises  StepInputError when value is not a number, time is not a time, or a column exists
    """
    names = rows.columns
    for name in ADDED:
        if name in names:
            raise StepInputError(
                f"there is a column {name} already; rename it with a map step before"
            )
    if rows.isStreaming:
        check_versions(pyspark.__version__, pyarrow.__version__)
    rows = rows.withColumns({TIME: _time(rows, step), VALUE: _value(rows, step)})
    rows = rows.where(F.col(VALUE).isNotNull())
    keys = [quoted(name) for name in step.group_by] or [ALL]
    if not step.group_by:
        rows = rows.withColumn(ALL, F.lit(0))
    carried = rows.withColumns({name: _carried(rows, name) for name in names})
    schema = StructType(
        [
            *(StructField(name, carried.schema[name].dataType) for name in names),
            StructField("score", DoubleType()),
            StructField("expected", DoubleType()),
            StructField("is_anomaly", BooleanType(), nullable=False),
        ]
    )
    judged = _in_groups(carried, step, keys, names, schema)
    back = [_brought_back(rows, name).alias(name) for name in names]
    return judged.select(*back, *ADDED)


def check_versions(spark: str, arrow: str) -> None:
    """Check the versions: stateful functions of PySpark 4.0 fail with a newer Arrow.

    raises  StepInputError
    """
    if spark.startswith("4.0.") and int(arrow.partition(".")[0]) >= ARROW_OF_SPARK_4_0_END:
        raise StepInputError(
            f"PySpark {spark} and pyarrow {arrow} do not work together in this step:"
            " pip install 'pyarrow<21', or a newer PySpark"
        )


def _in_groups(
    rows: DataFrame, step: Anomalies, keys: list[str], names: list[str], schema: StructType
) -> DataFrame:
    if not rows.isStreaming:

        def whole(frame: pd.DataFrame) -> pd.DataFrame:
            return _judged(frame, names, Memory(step))

        return rows.groupBy(*keys).applyInPandas(whole, schema)

    def batch(_: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        memory = Memory.from_text(step, state.get[0]) if state.exists else Memory(step)
        yield _judged(pd.concat(list(frames)), names, memory)
        state.update((memory.to_text(),))

    return rows.groupBy(*keys).applyInPandasWithState(
        batch, schema, STATE, "append", GroupStateTimeout.NoTimeout
    )


def _judged(frame: pd.DataFrame, names: list[str], memory: Memory) -> pd.DataFrame:
    frame = frame.sort_values(TIME, kind="stable").reset_index(drop=True)
    scored = [memory.judge(float(value)) for value in frame[VALUE]]
    frame = frame[names]
    return frame.assign(
        score=pd.Series([result.score for result in scored], dtype="float64"),
        expected=pd.Series([result.expected for result in scored], dtype="float64"),
        is_anomaly=pd.Series([result.is_anomaly for result in scored], dtype="bool"),
    )


def _time(rows: DataFrame, step: Anomalies) -> Column:
    time = column(rows, step.time)
    kind = rows.select(time).schema.fields[0].dataType
    if isinstance(kind, NumericType):
        return F.coalesce(time.cast("double"), F.lit(float(FIRST)))
    if not isinstance(kind, TimestampType | TimestampNTZType | DateType):
        raise StepInputError(f"time = {step.time!r} is {kind.simpleString().upper()}, not a time")
    return F.coalesce(F.unix_micros(time.cast("timestamp")), F.lit(FIRST))


def _value(rows: DataFrame, step: Anomalies) -> Column:
    value = column(rows, step.value)
    kind = rows.select(value).schema.fields[0].dataType
    if not isinstance(kind, NumericType):
        raise StepInputError(
            f"value = {step.value!r} is {kind.simpleString().upper()}, not a number"
        )
    return value.cast("double")


def _carried(rows: DataFrame, name: str) -> Column:
    """Convert a column that pandas would change: integers with nulls, and times after 2262."""
    value, kind = F.col(quoted(name)), rows.schema[name].dataType
    if isinstance(kind, TimestampType):
        return F.unix_micros(value).cast(StringType())
    if isinstance(kind, LongType | TimestampNTZType):
        return value.cast(StringType())
    return value


def _brought_back(rows: DataFrame, name: str) -> Column:
    value, kind = F.col(quoted(name)), rows.schema[name].dataType
    if isinstance(kind, TimestampType):
        return F.timestamp_micros(value.cast(LongType()))
    if isinstance(kind, LongType | TimestampNTZType):
        return value.cast(kind)
    return value
