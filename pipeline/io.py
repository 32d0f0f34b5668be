"""Reads sources into DataFrames and writes DataFrames to sinks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import BinaryType, StringType, StructType

from odradek.pipeline.causes import error_line
from odradek.pipeline.databases import options_of
from odradek.pipeline.exactly_once import batch_writer as exactly_once_writer
from odradek.pipeline.exactly_once import timeout_fault
from odradek.pipeline.spec.endpoints import (
    Cluster,
    ConsoleSink,
    FileSink,
    FileSource,
    HttpSink,
    KafkaSink,
    KafkaSource,
    RateSource,
    Sink,
    Source,
    SparkSink,
    SparkSource,
    TableSink,
    TableSource,
)
from odradek.pipeline.spec.field_types import Options
from odradek.pipeline.spec.model import Head
from odradek.pipeline.spec.producer_properties import producer_properties
from odradek.pipeline.transforms.columns import column, quoted
from odradek.pipeline.transforms.step_input_error import StepInputError
from odradek.pipeline.transforms.times import as_texts
from odradek.pipeline.transforms.times import read as read_time
from odradek.pipeline.upsert import batch_writer, upsert
from odradek.pipeline.webhook import batch_writer as webhook_writer
from odradek.pipeline.webhook import send


class SaveFailed(Exception):
    """A connector cannot write a batch."""


COMMITS: Final = "_spark_metadata"
"""The folder of Spark's commit log, which lists the committed files."""


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
                jvm: Any = spark._jvm
                jvm.java.util.regex.Pattern.compile(source.pattern)
            options = kafka_options(clusters[source.cluster]) | _kafka_source(source, is_stream)
            rows = reader.format("kafka").options(**options).load()
        case FileSource():
            options = _texts(source.options)
            if is_stream and source.max_files_per_trigger is not None:
                options["maxFilesPerTrigger"] = str(source.max_files_per_trigger)
            schema = StructType.fromDDL(source.row_schema)
            assert isinstance(schema, StructType), "a schema names columns"
            texts = as_texts(schema) if source.has_texts else schema
            reader = reader.format(source.format).schema(texts).options(**options)
            rows = reader.load(resolve_path(folder, source.path))
            if source.has_texts:
                rows = rows.select(
                    *(
                        read_time(
                            F.col(quoted(one.name)), one.dataType, source.epoch, one.name
                        ).alias(one.name)
                        for one in schema.fields
                    )
                )
        case TableSource():
            # Not cached: each batch of a stream reads the table again.
            options = {
                "url": resolve_url(folder, source.url),
                "dbtable": source.table,
                **options_of(source.url),
            }
            rows = reader.format("jdbc").options(**options, **_texts(source.options)).load()
        case SparkSource():
            reader = reader.format(source.format).options(**_texts(source.options))
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


def kafka_options(cluster: Cluster) -> dict[str, str]:
    """The options of a cluster for Spark's Kafka source and sink."""
    options = {f"kafka.{name}": _text(value) for name, value in cluster.options.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **options}


def _kafka_source(source: KafkaSource, is_stream: bool) -> dict[str, str]:
    options: dict[str, str] = {
        "includeHeaders": _text(source.headers),
        "failOnDataLoss": _text(source.fail_on_data_loss),
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
    return options | _texts(source.options)


def _offsets(offsets: str | dict[str, dict[str, int]]) -> str:
    return offsets if isinstance(offsets, str) else json.dumps(offsets)


def _texts(options: Options) -> dict[str, str]:
    return {name: _text(value) for name, value in options.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolve_path(folder: Path, path: str) -> str:
    """Make a path absolute, relative to `folder`; a URL (`s3a://`) is unchanged."""
    return path if "://" in path else str(folder / path)


def resolve_url(folder: Path, url: str) -> str:
    """Make the file in a JDBC address of SQLite absolute, relative to `folder`."""
    scheme = "jdbc:sqlite:"
    return scheme + str(folder / url.removeprefix(scheme)) if url.startswith(scheme) else url


def records(rows: DataFrame, sink: KafkaSink) -> DataFrame:
    """Rows for a Kafka sink: key and value, and topic, partition and headers if present."""
    if sink.value is None or sink.value == "value":
        value = F.col("value")
    else:
        names = [name for name in rows.columns if name not in ("headers", "topic", "partition")]
        chosen = names if sink.value == "*" else sink.value
        value = F.to_json(F.struct(*(column(rows, name) for name in chosen)))
    columns = {"value": value}
    if sink.key is not None:
        columns["key"] = column(rows, sink.key).cast("string")
    elif "key" in rows.columns:
        is_ready = isinstance(rows.schema["key"].dataType, BinaryType | StringType)
        columns["key"] = F.col("key") if is_ready else F.col("key").cast("string")
    for name in ("topic", "partition", "headers"):
        if name in rows.columns and not (name == "topic" and sink.topic is not None):
            columns[name] = F.col(name)
    return rows.select(*(one.alias(name) for name, one in columns.items()))


def write_batch(rows: DataFrame, sink: Sink, clusters: Mapping[str, Cluster], folder: Path) -> None:
    """Write all rows of a batch pipeline."""
    match sink:
        case KafkaSink():
            writer = records(rows, sink).write.format("kafka")
            writer.options(**_kafka_sink(sink, clusters)).save()
        case FileSink():
            if (
                _last_batch(rows.sparkSession, f"{resolve_path(folder, sink.path)}/{COMMITS}")
                is not None
            ):
                raise StepInputError(
                    f"{sink.path} holds the files of a stream, whose readers see no others"
                )
            batch = rows.write.format(sink.format).mode("append").options(**_texts(sink.options))
            if sink.partition_by:
                batch = batch.partitionBy(*sink.partition_by)
            batch.save(resolve_path(folder, sink.path))
        case TableSink():
            upsert(rows, resolve_url(folder, sink.url), sink, owner=str(folder / sink.source))
        case SparkSink():
            _save(rows, sink, folder)
        case HttpSink():
            # A run that is repeated is another batch: nothing says which rows were sent.
            send(rows, sink, batch=str(uuid4()))
        case ConsoleSink():
            rows.show(sink.rows, truncate=False)


def _save(rows: DataFrame, sink: SparkSink, folder: Path) -> None:
    writer = rows.write.format(sink.format).mode(sink.save_mode).options(**_texts(sink.options))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.table is not None:
        writer.saveAsTable(sink.table)
    elif sink.path is not None:
        writer.save(resolve_path(folder, sink.path))
    else:
        writer.save()


def start(
    rows: DataFrame,
    sink: Sink,
    clusters: Mapping[str, Cluster],
    head: Head,
    folder: Path,
    *,
    name: str,
    checkpoint: str,
) -> StreamingQuery:
    """Begin to write a stream."""
    writer: DataStreamWriter
    match sink:
        case KafkaSink() if sink.is_exactly_once:
            batches = _transactions(rows.sparkSession, sink, clusters, head, name, checkpoint)
            writer = records(rows, sink).writeStream
            writer = writer.outputMode(sink.output_mode).foreachBatch(batches)
        case KafkaSink():
            writer = records(rows, sink).writeStream.format("kafka")
            writer = writer.options(**_kafka_sink(sink, clusters)).outputMode(sink.output_mode)
        case FileSink():
            _check_folder(rows.sparkSession, resolve_path(folder, sink.path), checkpoint)
            writer = rows.writeStream.format(sink.format).options(**_texts(sink.options))
            if sink.partition_by:
                writer = writer.partitionBy(*sink.partition_by)
            writer = writer.option("path", resolve_path(folder, sink.path)).outputMode("append")
        case TableSink():
            batches = batch_writer(resolve_url(folder, sink.url), sink, owner=checkpoint)
            writer = rows.writeStream.outputMode(sink.output_mode).foreachBatch(batches)
        case HttpSink():
            writer = rows.writeStream.outputMode(sink.output_mode)
            writer = writer.foreachBatch(webhook_writer(sink, Path(checkpoint)))
        case SparkSink() if sink.foreach_batch:
            writer = rows.writeStream.outputMode(sink.output_mode)
            writer = writer.foreachBatch(lambda batch, _: _save_batch(batch, sink, folder))
        case SparkSink():
            writer = _spark_writer(rows, sink, folder)
        case ConsoleSink():
            writer = rows.writeStream.format("console").outputMode(sink.output_mode)
            writer = writer.option("numRows", sink.rows).option("truncate", "false")
    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    if head.mode == "available_now":
        writer = writer.trigger(availableNow=True)
    elif head.trigger is not None:
        writer = writer.trigger(processingTime=head.trigger)
    if isinstance(sink, SparkSink) and sink.table is not None and not sink.foreach_batch:
        return writer.toTable(sink.table)
    return writer.start()


def _spark_writer(rows: DataFrame, sink: SparkSink, folder: Path) -> DataStreamWriter:
    writer = rows.writeStream.format(sink.format).options(**_texts(sink.options))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.path is not None:
        writer = writer.option("path", resolve_path(folder, sink.path))
    return writer.outputMode(sink.output_mode)


def _save_batch(rows: DataFrame, sink: SparkSink, folder: Path) -> None:
    """Write a batch of a stream.

    raises  SaveFailed with one line: a long text ends the query as if it had succeeded (Spark 4.0)
    """
    try:
        _save(rows, sink, folder)
    except (PySparkException, Py4JError) as error:
        raise SaveFailed(error_line(error)) from None


def _transactions(
    spark: SparkSession,
    sink: KafkaSink,
    clusters: Mapping[str, Cluster],
    head: Head,
    name: str,
    checkpoint: str,
) -> Callable[[DataFrame, int], None]:
    """The writer of an exactly-once sink.

    raises  StepInputError when the cluster does not allow the transaction time-out
    """
    assert sink.topic is not None, "the model checks it"
    properties = producer_properties(sink, clusters[sink.cluster])
    fault = timeout_fault(properties)
    if fault is not None:
        raise StepInputError(fault)
    begun = _last_batch(spark, f"{checkpoint}/offsets")
    return exactly_once_writer(
        properties,
        sink.topic,
        owner=f"{head.name}-{name}",
        checkpoint=Path(checkpoint),
        repeated=begun if begun != _last_batch(spark, f"{checkpoint}/commits") else None,
    )


def _check_folder(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Check that the commit log of a folder belongs to the checkpoint.

    Spark skips a batch whose number is in the commit log already.

    raises  StepInputError
    """
    written = _last_batch(spark, f"{path}/{COMMITS}")
    begun = _last_batch(spark, f"{checkpoint}/offsets")
    if written is not None and written > (-1 if begun is None else begun):
        raise StepInputError(
            f"{path} holds files of batches up to {written} that this checkpoint does not know:"
            f" another pipeline or checkpoint wrote them, and batches up to {written} would be left"
            " out; give another folder, or that checkpoint"
        )


def _last_batch(spark: SparkSession, log: str) -> int | None:
    """The greatest batch number in one of Spark's logs; None when the log is empty."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(log)
    context: Any = spark.sparkContext._jsc
    files = path.getFileSystem(context.hadoopConfiguration())
    if not files.exists(path):
        return None
    names = [one.getPath().getName().removesuffix(".compact") for one in files.listStatus(path)]
    return max((int(name) for name in names if name.isdecimal()), default=None)


def _kafka_sink(sink: KafkaSink, clusters: Mapping[str, Cluster]) -> dict[str, str]:
    options = kafka_options(clusters[sink.cluster]) | _texts(sink.options)
    return options if sink.topic is None else options | {"topic": sink.topic}
