"""Reads sources into DataFrames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from odradek.pipeline.databases import options_of
from odradek.pipeline.spark.gateway import java
from odradek.pipeline.spark.options import kafka_options, resolve_path, resolve_url
from odradek.pipeline.spec.ends import Cluster
from odradek.pipeline.spec.field_types import text_of_option, texts
from odradek.pipeline.spec.model import Head
from odradek.pipeline.spec.sources import (
    FileSource,
    KafkaSource,
    RateSource,
    Source,
    SparkSource,
    TableSource,
)
from odradek.pipeline.transforms.columns import quoted
from odradek.pipeline.transforms.times import as_texts
from odradek.pipeline.transforms.times import read as read_time


def read(
    spark: SparkSession, source: Source, clusters: Mapping[str, Cluster], head: Head, folder: Path
) -> DataFrame:
    """The rows of a source: a stream, or in batch mode the present rows.

    folder  of the pipeline file, the base of relative paths
    """
    is_stream = head.mode != "batch" and not source.is_static
    reader: Any = spark.readStream if is_stream else spark.read
    match source:
        case KafkaSource():
            if source.pattern is not None:
                # An invalid schema fails here, for the source, instead of in a sink's first batch.
                jvm = java(spark)
                jvm.java.util.regex.Pattern.compile(source.pattern)
            options = kafka_options(clusters[source.cluster]) | _kafka_source(source, is_stream)
            rows = reader.format("kafka").options(**options).load()
        case FileSource():
            options = texts(source.options)
            if is_stream and source.max_files_per_trigger is not None:
                options["maxFilesPerTrigger"] = str(source.max_files_per_trigger)
            schema = StructType.fromDDL(source.row_schema)
            assert isinstance(schema, StructType), "a schema names columns"
            read_schema = as_texts(schema) if source.has_texts else schema
            reader = reader.format(source.format).schema(read_schema).options(**options)
            rows = reader.load(resolve_path(folder, source.path))
            if source.has_texts:
                rows = rows.select(
                    *(
                        read_time(
                            F.col(quoted(field.name)), field.dataType, source.epoch, field.name
                        ).alias(field.name)
                        for field in schema.fields
                    )
                )
        case TableSource():
            # Not cached: each batch of a stream reads the table again.
            options = {
                "url": resolve_url(folder, source.url),
                "dbtable": source.table,
                **options_of(source.url),
            }
            rows = reader.format("jdbc").options(**options, **texts(source.options)).load()
        case SparkSource():
            reader = reader.format(source.format).options(**texts(source.options))
            if source.row_schema is not None:
                reader = reader.schema(source.row_schema)
            if source.table is not None:
                rows = reader.table(source.table)
            elif source.path is not None:
                rows = reader.load(resolve_path(folder, source.path))
            else:
                rows = reader.load()
        case RateSource():
            rows = reader.format("rate").option("rowsPerSecond", source.rows_per_second).load()
    assert isinstance(rows, DataFrame), "what Spark loads"
    return rows


def _kafka_source(source: KafkaSource, is_stream: bool) -> dict[str, str]:
    options: dict[str, str] = {
        "includeHeaders": text_of_option(source.headers),
        "failOnDataLoss": text_of_option(source.fail_on_data_loss),
    }
    if source.subscribe is not None:
        options["subscribe"] = ",".join(source.subscribe)
    elif source.pattern is not None:
        options["subscribePattern"] = source.pattern
    else:
        options["assign"] = json.dumps(source.assign)
    if source.starting_timestamp_ms is not None:
        options["startingTimestamp"] = str(source.starting_timestamp_ms)
        # A partition without a record at or after this time starts at its end.
        options["startingOffsetsByTimestampStrategy"] = "latest"
    else:
        options["startingOffsets"] = _offsets(source.starting_offsets)
    if is_stream and source.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(source.max_offsets_per_trigger)
    if not is_stream:
        options["endingOffsets"] = _offsets(source.ending_offsets)
    return options | texts(source.options)


def _offsets(offsets: str | dict[str, dict[str, int]]) -> str:
    return offsets if isinstance(offsets, str) else json.dumps(offsets)
