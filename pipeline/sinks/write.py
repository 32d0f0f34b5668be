"""Writes DataFrames to sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from odradek.pipeline.registry.frames import Encoding
from odradek.pipeline.sinks.connector import save, save_batch, save_numbered, stream_writer
from odradek.pipeline.sinks.exactly_once import batch_writer as exactly_once_writer
from odradek.pipeline.sinks.exactly_once import timeout_fault
from odradek.pipeline.sinks.files import add_files, check_batch_folder, check_folder, last_batch
from odradek.pipeline.sinks.records import records, value_columns
from odradek.pipeline.sinks.upsert import batch_writer, upsert
from odradek.pipeline.sinks.webhook import batch_writer as webhook_writer
from odradek.pipeline.sinks.webhook import send
from odradek.pipeline.sinks.written_batch import query_id
from odradek.pipeline.spark.options import kafka_options, resolve_path, resolve_url, texts
from odradek.pipeline.spec.model import Head, Pipeline
from odradek.pipeline.spec.producer_properties import producer_properties
from odradek.pipeline.spec.sinks import (
    ConsoleSink,
    FileSink,
    HttpSink,
    KafkaSink,
    Sink,
    SparkSink,
    TableSink,
)
from odradek.pipeline.transforms.columns import StepInputError


def write_batch(rows: DataFrame, sink: Sink, pipeline: Pipeline, folder: Path) -> None:
    """Write all rows of a batch pipeline."""
    match sink:
        case KafkaSink():
            writer = _records(rows, sink, pipeline, folder).write.format("kafka")
            writer.options(**_kafka_sink(sink, pipeline)).save()
        case FileSink():
            check_batch_folder(rows.sparkSession, sink.path, resolve_path(folder, sink.path))
            batch = rows.write.format(sink.format).mode("append").options(**texts(sink.options))
            if sink.partition_by:
                batch = batch.partitionBy(*sink.partition_by)
            batch.save(resolve_path(folder, sink.path))
        case TableSink():
            upsert(rows, resolve_url(folder, sink.url), sink, owner=str(folder / sink.source))
        case SparkSink():
            save(rows, sink, folder)
        case HttpSink():
            # A run that is repeated is another batch: nothing says which rows were sent.
            send(rows, sink, batch=str(uuid4()))
        case ConsoleSink():
            rows.show(sink.rows, truncate=False)


def start(
    rows: DataFrame,
    sink: Sink,
    pipeline: Pipeline,
    folder: Path,
    *,
    name: str,
    checkpoint: str,
) -> StreamingQuery:
    """Begin to write a stream."""
    writer: DataStreamWriter
    match sink:
        case KafkaSink() if sink.is_exactly_once:
            batches = _transactions(rows.sparkSession, sink, pipeline, name, checkpoint)
            writer = _records(rows, sink, pipeline, folder).writeStream
            writer = writer.outputMode(sink.output_mode).foreachBatch(batches)
        case KafkaSink():
            writer = _records(rows, sink, pipeline, folder).writeStream.format("kafka")
            writer = writer.options(**_kafka_sink(sink, pipeline)).outputMode(sink.output_mode)
        case FileSink():
            check_folder(rows.sparkSession, resolve_path(folder, sink.path), checkpoint)
            writer = rows.writeStream.format(sink.format).options(**texts(sink.options))
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
            writer = writer.foreachBatch(lambda batch, _: save_batch(batch, sink, folder))
        case SparkSink():
            writer = stream_writer(rows, sink, folder)
        case ConsoleSink():
            writer = rows.writeStream.format("console").outputMode(sink.output_mode)
            writer = writer.option("numRows", sink.rows).option("truncate", "false")
    table = sink.table if isinstance(sink, SparkSink) and not sink.foreach_batch else None
    return start_writer(writer, pipeline.pipeline, name=name, checkpoint=checkpoint, table=table)


def start_writer(
    writer: DataStreamWriter, head: Head, *, name: str, checkpoint: str, table: str | None = None
) -> StreamingQuery:
    """Start a query, with the trigger of the pipeline."""
    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    if head.mode == "available_now":
        writer = writer.trigger(availableNow=True)
    elif head.trigger is not None:
        writer = writer.trigger(processingTime=head.trigger)
    return writer.start() if table is None else writer.toTable(table)


def batch_writer_of(
    rows: DataFrame,
    sink: Sink,
    pipeline: Pipeline,
    folder: Path,
    *,
    name: str,
    checkpoint: str,
) -> Callable[[DataFrame, int], None]:
    """The writer of the batches of a stream, for a sink that shares its query with others.

    It keeps the guarantee of the sink when a batch is written again.

    rows        the stream, whose columns those of each batch are
    checkpoint  of the query
    raises      StepInputError, OSError
    """
    match sink:
        case KafkaSink():
            return _batch_writer_to_kafka(rows, sink, pipeline, folder, name, checkpoint)
        case FileSink():
            path = resolve_path(folder, sink.path)
            check_folder(rows.sparkSession, path, checkpoint)
            return lambda batch, number: add_files(batch, sink, path, number)
        case TableSink():
            # Two sinks of a query may write to one table: each has a staging table.
            owner = f"{checkpoint}/{name}"
            return batch_writer(resolve_url(folder, sink.url), sink, owner=owner)
        case HttpSink():
            return webhook_writer(sink, Path(checkpoint), sender=name)
        case SparkSink() if not sink.foreach_batch:
            return lambda batch, number: save_numbered(
                batch, sink, folder, writer=f"{query_id(Path(checkpoint))}-{name}", number=number
            )
        case SparkSink():
            return lambda batch, _: save_batch(batch, sink, folder)
        case ConsoleSink():
            return lambda batch, _: write_batch(batch, sink, pipeline, folder)


def _batch_writer_to_kafka(
    rows: DataFrame,
    sink: KafkaSink,
    pipeline: Pipeline,
    folder: Path,
    name: str,
    checkpoint: str,
) -> Callable[[DataFrame, int], None]:
    encoding = _encoding(rows, sink, pipeline, folder)
    if sink.is_exactly_once:
        in_transactions = _transactions(rows.sparkSession, sink, pipeline, name, checkpoint)
        return lambda batch, number: in_transactions(records(batch, sink, encoding), number)
    options = _kafka_sink(sink, pipeline)

    def write(batch: DataFrame, _: int) -> None:
        records(batch, sink, encoding).write.format("kafka").options(**options).save()

    return write


def _records(rows: DataFrame, sink: KafkaSink, pipeline: Pipeline, folder: Path) -> DataFrame:
    """raises  StepInputError, OSError"""
    return records(rows, sink, _encoding(rows, sink, pipeline, folder))


def _encoding(
    rows: DataFrame, sink: KafkaSink, pipeline: Pipeline, folder: Path
) -> Encoding | None:
    """How values are encoded; None for JSON.  A schema is registered now.

    raises  StepInputError, OSError
    """
    if sink.format == "json":
        return None
    # Imported here: most pipelines need none of its libraries.
    from odradek.pipeline.registry.writing import encoding_of

    return encoding_of(rows, value_columns(rows, sink), sink, pipeline.registries, folder)


def _transactions(
    spark: SparkSession,
    sink: KafkaSink,
    pipeline: Pipeline,
    name: str,
    checkpoint: str,
) -> Callable[[DataFrame, int], None]:
    """The writer of an exactly-once sink.

    raises  StepInputError when the cluster does not allow the transaction time-out
    """
    assert sink.topic is not None, "the model checks it"
    properties = producer_properties(sink, pipeline.clusters[sink.cluster])
    fault = timeout_fault(properties)
    if fault is not None:
        raise StepInputError(fault)
    begun = last_batch(spark, f"{checkpoint}/offsets")
    return exactly_once_writer(
        properties,
        sink.topic,
        owner=f"{pipeline.pipeline.name}-{name}",
        checkpoint=Path(checkpoint),
        repeated=begun if begun != last_batch(spark, f"{checkpoint}/commits") else None,
    )


def _kafka_sink(sink: KafkaSink, pipeline: Pipeline) -> dict[str, str]:
    options = kafka_options(pipeline.clusters[sink.cluster]) | texts(sink.options)
    return options if sink.topic is None else options | {"topic": sink.topic}
