"""Given rows as the DataFrames of sources, in batches that a test decides."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from odradek.pipeline.sources.read import read as read_source
from odradek.pipeline.spec.cases import Rows
from odradek.pipeline.spec.model import Head
from odradek.pipeline.spec.sources import (
    FileSource,
    KafkaSource,
    RateSource,
    Source,
    SparkSource,
    TableSource,
)
from odradek.pipeline.spec.written_float import dumps

KAFKA_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
KAFKA_ROW: Final = (
    "key STRING, value STRING, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: STRING>>"
)
"""Bytes are in base64."""
FIRST_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The timestamp of a record that has none."""
RATE_ROW: Final = "timestamp TIMESTAMP, value BIGINT"


class GivenRowsError(Exception):
    """Given rows cannot be those of their source."""


def read_given(
    spark: SparkSession, source: Source, batches: Sequence[Rows], head: Head, folder: Path
) -> DataFrame:
    """The DataFrame of a source with given rows: a stream of one batch each, or a batch.

    folder  for the files of this source, with its name
    raises  GivenRowsError
    """
    if _has_unknown_columns(source) and not any(batches):
        reason = f"a {source.kind} source needs a row, which gives it columns"
        raise GivenRowsError(f"{folder.name}: {reason}")
    folder.mkdir(parents=True)
    offset = 0
    for number, rows in enumerate(batches):
        written = rows
        if isinstance(source, KafkaSource):
            written = [_record(row, source, offset + place) for place, row in enumerate(rows)]
            offset += len(rows)
        lines = [dumps(row, _time_text) + "\n" for row in written]
        file = folder / f"{number:06}.json"
        file.write_text("".join(lines))
        # Spark reads the files of a stream in the order of their times.
        os.utime(file, (FIRST_TIME.timestamp() + number,) * 2)
    match source:
        case TableSource():
            return spark.read.json(str(folder))
        case KafkaSource():
            return _records(_lines(spark, KAFKA_ROW, head, folder), source)
        case RateSource():
            return _lines(spark, RATE_ROW, head, folder)
        case SparkSource():
            schema = source.row_schema or spark.read.json(str(folder)).schema.toDDL()
            return _lines(spark, schema, head, folder, is_static=source.static)
        case FileSource():
            epoch = source.epoch if source.has_texts else None
            return _lines(
                spark, source.row_schema, head, folder, epoch=epoch, is_static=source.static
            )


def _has_unknown_columns(source: Source) -> bool:
    """Whether the columns of a source are those of its given rows."""
    return isinstance(source, TableSource) or (
        isinstance(source, SparkSource) and source.row_schema is None
    )


def _lines(
    spark: SparkSession,
    schema: str,
    head: Head,
    folder: Path,
    *,
    epoch: Any = None,
    is_static: bool = False,
) -> DataFrame:
    if is_static:
        head = head.model_copy(update={"mode": "batch"})
    source = FileSource.model_validate(
        {
            "kind": "files",
            "path": str(folder),
            "format": "json",
            "schema": schema,
            "epoch": epoch,
            "max_files_per_trigger": 1,
        }
    )
    return read_source(spark, source, {}, head, folder)


def _record(row: Mapping[str, Any], source: KafkaSource, offset: int) -> dict[str, Any]:
    for name in row:
        if name not in KAFKA_COLUMNS:
            columns = ", ".join(KAFKA_COLUMNS)
            raise GivenRowsError(f"a record has no {name!r}; it has: {columns}")
    headers = row.get("headers", {})
    if not isinstance(headers, dict):
        raise GivenRowsError("the headers of a record are a table")
    return {
        "key": _bytes(row.get("key")),
        "value": _bytes(row.get("value")),
        "topic": row.get("topic", next(iter(source.topics), "topic")),
        "partition": row.get("partition", 0),
        "offset": row.get("offset", offset),
        "timestamp": row.get("timestamp", FIRST_TIME),
        "headers": [{"key": key, "value": _bytes(value)} for key, value in headers.items()],
    }


def _bytes(value: Any) -> str | None:
    """A text as its bytes, any other value as JSON; in base64."""
    if value is None:
        return None
    text = value if isinstance(value, str) else dumps(value, _time_text)
    return base64.b64encode(text.encode()).decode()


def _records(rows: DataFrame, source: KafkaSource) -> DataFrame:
    """With the columns of Spark's Kafka source."""
    names = KAFKA_COLUMNS if source.headers else KAFKA_COLUMNS[:-1]
    columns = {name: F.col(name) for name in names}
    columns |= {name: F.unbase64(name) for name in ("key", "value")}
    if source.headers:
        columns["headers"] = F.transform(
            "headers",
            lambda header: F.struct(
                header["key"].alias("key"), F.unbase64(header["value"]).alias("value")
            ),
        )
    columns["timestampType"] = F.lit(0)
    return rows.select(*(column.alias(name) for name, column in columns.items()))


def _time_text(value: object) -> str:
    """A time of TOML in ISO 8601; without an offset it is in UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise GivenRowsError(f"{value} is not a value of a row")
