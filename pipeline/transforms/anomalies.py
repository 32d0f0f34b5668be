"""Anomalies per group, in order of time: a stream keeps each group's memory in Spark's state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

from pipeline.spec.steps import Anomalies
from pipeline.transforms.scoring import Memory

ALL: Final = "_all"
"""The group of everything, where no columns are named."""
STATE: Final = "history STRING"
"""JSON: Spark 4.0 cannot hand an array of its state back to Python."""


def find_anomalies(rows: DataFrame, step: Anomalies) -> DataFrame:
    """The same rows with score (in deviations), expected and is_anomaly.

    Rows whose value is null are dropped.  In a stream rows are ordered within a batch; one that
    comes in a later batch is judged then.
    """
    names = rows.columns
    schema = StructType(
        [
            *rows.schema.fields,
            StructField("score", DoubleType()),
            StructField("expected", DoubleType()),
            StructField("is_anomaly", BooleanType(), nullable=False),
        ]
    )
    rows = rows.where(F.col(step.value).isNotNull())
    keys = list(step.group_by)
    if not keys:
        rows, keys = rows.withColumn(ALL, F.lit(0)), [ALL]
    if not rows.isStreaming:

        def whole(frame: pd.DataFrame) -> pd.DataFrame:
            return _judged(frame[names], step, Memory(step))

        return rows.groupBy(*keys).applyInPandas(whole, schema)

    def batch(_: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        memory = Memory(step, json.loads(state.get[0]) if state.exists else ())
        yield _judged(pd.concat(list(frames))[names], step, memory)
        state.update((json.dumps(memory.history),))

    return rows.groupBy(*keys).applyInPandasWithState(
        batch, schema, STATE, "append", GroupStateTimeout.NoTimeout
    )


def _judged(frame: pd.DataFrame, step: Anomalies, memory: Memory) -> pd.DataFrame:
    frame = frame.sort_values(step.time, kind="stable").reset_index(drop=True)
    scored = [memory.judge(float(value)) for value in frame[step.value]]
    frame["score"] = pd.Series([one.score for one in scored], dtype="float64")
    frame["expected"] = pd.Series([one.expected for one in scored], dtype="float64")
    frame["is_anomaly"] = pd.Series([one.is_anomaly for one in scored], dtype="bool")
    return frame
