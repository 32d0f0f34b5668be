"""Writes DataFrames to sinks: each kind of sink has a writer of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from odradek.pipeline.registry.frames import Encoding
from odradek.pipeline.report.failures import WriteBatch, in_one_line
from odradek.pipeline.sinks.exactly_once import exactly_once_writer, timeout_fault
from odradek.pipeline.sinks.files import add_files, check_batch_folder, check_folder, last_batch
from odradek.pipeline.sinks.records import records, value_columns
from odradek.pipeline.sinks.upsert import UpsertFailed, upsert
from odradek.pipeline.sinks.webhook import send, webhook_writer
from odradek.pipeline.sinks.written_batch import query_id
from odradek.pipeline.spark.options import kafka_options, resolve_path, resolve_url
from odradek.pipeline.spec.field_types import texts
from odradek.pipeline.spec.model import Head, PipelineSpec
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


class SaveFailed(Exception):
    """A connector cannot write a batch."""


@dataclass(frozen=True, slots=True)
class SinkQuery:
    """The streaming query of a sink.

    sink        the name of the sink
    checkpoint  the folder of the query's progress
    is_shared   the query has other sinks, too
    """

    sink: str
    checkpoint: str
    is_shared: bool = False


class SinkWriter(Protocol):
    """Writes rows to one sink.

    raises  StepInputError for rows that do not fit the sink; OSError
    """

    def write(self, rows: DataFrame) -> None:
        """Write all rows of a batch pipeline."""

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        """The writer of a query that has this sink alone."""

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        """The writer of the batches of a stream; keeps the sink's guarantee when one is repeated.

        rows  the stream, whose columns those of each batch are
        """


def writer_of(sink: Sink, pipeline: PipelineSpec, folder: Path) -> SinkWriter:
    """The writer of a sink of a pipeline, whose file is in `folder`."""
    match sink:
        case KafkaSink():
            return KafkaWriter(sink, pipeline, folder)
        case FileSink():
            return FileWriter(sink, resolve_path(folder, sink.path))
        case TableSink():
            return TableWriter(sink, resolve_url(folder, sink.url), folder)
        case HttpSink():
            return WebhookWriter(sink)
        case SparkSink():
            return ConnectorWriter(sink, folder)
        case ConsoleSink():
            return ConsoleWriter(sink)


def start_writer(
    writer: DataStreamWriter, head: Head, *, name: str, checkpoint: str, table: str | None = None
) -> StreamingQuery:
    """Start a query, with the trigger of the pipeline.

    table  of a catalog that the query writes itself
    """
    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    if head.mode == "available_now":
        writer = writer.trigger(availableNow=True)
    elif head.trigger is not None:
        writer = writer.trigger(processingTime=head.trigger)
    return writer.start() if table is None else writer.toTable(table)


def _formatted(writer: Any, sink: FileSink | SparkSink) -> Any:
    """A writer of rows or of a stream, in the format of a sink."""
    writer = writer.format(sink.format).options(**texts(sink.options))
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer


def _in_batches(rows: DataFrame, output_mode: str, write: WriteBatch) -> DataStreamWriter:
    return rows.writeStream.outputMode(output_mode).foreachBatch(write)


@dataclass(frozen=True, slots=True)
class KafkaWriter:
    """Writes records: with Spark's connector, or exactly once in transactions of the driver."""

    sink: KafkaSink
    pipeline: PipelineSpec
    folder: Path

    def write(self, rows: DataFrame) -> None:
        """Write all rows of a batch pipeline, at least once."""
        self._records(rows).write.format("kafka").options(**self._options()).save()

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        if self.sink.is_exactly_once:
            batches = self._transactions(rows, query)
            return _in_batches(self._records(rows), self.sink.output_mode, batches)
        writer = self._records(rows).writeStream.format("kafka").options(**self._options())
        return writer.outputMode(self.sink.output_mode)

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        encoding = self._encoding(rows)
        if self.sink.is_exactly_once:
            in_transactions = self._transactions(rows, query)
            return lambda batch, number: in_transactions(
                records(batch, self.sink, encoding), number
            )
        options = self._options()

        def write(batch: DataFrame, _: int) -> None:
            records(batch, self.sink, encoding).write.format("kafka").options(**options).save()

        return write

    def _records(self, rows: DataFrame) -> DataFrame:
        return records(rows, self.sink, self._encoding(rows))

    def _encoding(self, rows: DataFrame) -> Encoding | None:
        """How values are encoded; None for JSON.  A schema is registered now."""
        if self.sink.format == "json":
            return None
        # Imported here: most pipelines need none of its libraries.
        from odradek.pipeline.registry.writing import encoding_of

        columns = value_columns(rows, self.sink)
        return encoding_of(rows, columns, self.sink, self.pipeline.registries, self.folder)

    def _transactions(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        """The writer of an exactly-once sink.

        raises  StepInputError when the cluster does not allow the transaction time-out
        """
        assert self.sink.topic is not None, "the model checks it"
        properties = producer_properties(self.sink, self.pipeline.clusters[self.sink.cluster])
        fault = timeout_fault(properties)
        if fault is not None:
            raise StepInputError(fault)
        spark = rows.sparkSession
        begun = last_batch(spark, f"{query.checkpoint}/offsets")
        return exactly_once_writer(
            properties,
            self.sink.topic,
            owner=f"{self.pipeline.pipeline.name}-{query.sink}",
            checkpoint=Path(query.checkpoint),
            repeated=begun if begun != last_batch(spark, f"{query.checkpoint}/commits") else None,
        )

    def _options(self) -> dict[str, str]:
        options = kafka_options(self.pipeline.clusters[self.sink.cluster]) | texts(
            self.sink.options
        )
        return options if self.sink.topic is None else options | {"topic": self.sink.topic}


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes files to a folder; Spark's commit log there lists those of complete batches."""

    sink: FileSink
    path: str

    def write(self, rows: DataFrame) -> None:
        check_batch_folder(rows.sparkSession, self.sink.path, self.path)
        _formatted(rows.write, self.sink).mode("append").save(self.path)

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        check_folder(rows.sparkSession, self.path, query.checkpoint)
        writer: DataStreamWriter = _formatted(rows.writeStream, self.sink)
        return writer.option("path", self.path).outputMode("append")

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        check_folder(rows.sparkSession, self.path, query.checkpoint)
        return lambda batch, number: add_files(batch, self.sink, self.path, number)


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Merges rows into a table of a database."""

    sink: TableSink
    url: str
    folder: Path

    def write(self, rows: DataFrame) -> None:
        upsert(rows, self.url, self.sink, owner=str(self.folder / self.sink.source))

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        return _in_batches(rows, self.sink.output_mode, self.batches(rows, query))

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        # Two sinks of a query may write to one table: each has a staging table.
        owner = f"{query.checkpoint}/{query.sink}" if query.is_shared else query.checkpoint
        return in_one_line(
            lambda batch, _: upsert(batch, self.url, self.sink, owner=owner), UpsertFailed
        )


@dataclass(frozen=True, slots=True)
class WebhookWriter:
    """Sends a request for each row."""

    sink: HttpSink

    def write(self, rows: DataFrame) -> None:
        # A run that is repeated is another batch: nothing says which rows were sent.
        send(rows, self.sink, batch=str(uuid4()))

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        return _in_batches(rows, self.sink.output_mode, self.batches(rows, query))

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        sender = query.sink if query.is_shared else None
        return webhook_writer(self.sink, Path(query.checkpoint), sender=sender)


@dataclass(frozen=True, slots=True)
class ConnectorWriter:
    """Writes with a connector of Spark."""

    sink: SparkSink
    folder: Path

    def write(self, rows: DataFrame) -> None:
        self._save(rows, self.sink)

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        if self.sink.foreach_batch:
            return _in_batches(rows, self.sink.output_mode, self.batches(rows, query))
        writer: DataStreamWriter = _formatted(rows.writeStream, self.sink)
        if self.sink.path is not None:
            writer = writer.option("path", resolve_path(self.folder, self.sink.path))
        return writer.outputMode(self.sink.output_mode)

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        """The writer of batches; Delta Lake skips a batch whose number it has."""

        def write(batch: DataFrame, number: int) -> None:
            sink = self.sink
            if not sink.foreach_batch:
                writer = f"{query_id(Path(query.checkpoint))}-{query.sink}"
                options = {**sink.options, "txnAppId": writer, "txnVersion": number}
                sink = sink.model_copy(update={"save_mode": "append", "options": options})
            self._save(batch, sink)

        return in_one_line(write, SaveFailed)

    def _save(self, rows: DataFrame, sink: SparkSink) -> None:
        writer = _formatted(rows.write, sink).mode(sink.save_mode)
        if sink.table is not None:
            writer.saveAsTable(sink.table)
        elif sink.path is not None:
            writer.save(resolve_path(self.folder, sink.path))
        else:
            writer.save()


@dataclass(frozen=True, slots=True)
class ConsoleWriter:
    """Prints rows."""

    sink: ConsoleSink

    def write(self, rows: DataFrame) -> None:
        rows.show(self.sink.rows, truncate=False)

    def stream(self, rows: DataFrame, query: SinkQuery) -> DataStreamWriter:
        writer = rows.writeStream.format("console").outputMode(self.sink.output_mode)
        return writer.option("numRows", self.sink.rows).option("truncate", "false")

    def batches(self, rows: DataFrame, query: SinkQuery) -> WriteBatch:
        return lambda batch, _: self.write(batch)
