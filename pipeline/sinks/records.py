"""The records of a Kafka sink."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from odradek.pipeline.registry.frames import Encoding
from odradek.pipeline.spec.sinks import KafkaSink
from odradek.pipeline.transforms.columns import column


def records(rows: DataFrame, sink: KafkaSink, encoding: Encoding | None = None) -> DataFrame:
    """Rows for a Kafka sink: key and value, and topic, partition and headers if present.

    encoding  of the value; None: JSON
    """
    if sink.value is None or sink.value == "value":
        value = F.col("value")
    elif encoding is None:
        value = F.to_json(F.struct(*(column(rows, name) for name in value_columns(rows, sink))))
    else:
        value = encoding.encode(F.struct(*(column(rows, name) for name in encoding.columns)))
    columns = {"value": value}
    if sink.key is not None:
        columns["key"] = column(rows, sink.key).cast("string")
    elif "key" in rows.columns:
        is_ready = isinstance(rows.schema["key"].dataType, BinaryType | StringType)
        columns["key"] = F.col("key") if is_ready else F.col("key").cast("string")
    for name in ("topic", "partition", "headers"):
        if name in rows.columns and not (name == "topic" and sink.topic is not None):
            columns[name] = F.col(name)
    return rows.select(*(column.alias(name) for name, column in columns.items()))


def value_columns(rows: DataFrame, sink: KafkaSink) -> list[str]:
    """The columns of the value."""
    if isinstance(sink.value, list):
        return sink.value
    return [name for name in rows.columns if name not in ("headers", "topic", "partition")]
