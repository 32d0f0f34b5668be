"""Writes to connectors of Spark."""

from __future__ import annotations

from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from odradek.pipeline.report.causes import error_line
from odradek.pipeline.spark.options import resolve_path, texts
from odradek.pipeline.spec.sinks import (
    SparkSink,
)


class SaveFailed(Exception):
    """A connector cannot write a batch."""


def save(rows: DataFrame, sink: SparkSink, folder: Path) -> None:
    writer = rows.write.format(sink.format).mode(sink.save_mode).options(**texts(sink.options))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.table is not None:
        writer.saveAsTable(sink.table)
    elif sink.path is not None:
        writer.save(resolve_path(folder, sink.path))
    else:
        writer.save()


def stream_writer(rows: DataFrame, sink: SparkSink, folder: Path) -> DataStreamWriter:
    writer = rows.writeStream.format(sink.format).options(**texts(sink.options))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.path is not None:
        writer = writer.option("path", resolve_path(folder, sink.path))
    return writer.outputMode(sink.output_mode)


def save_numbered(
    rows: DataFrame, sink: SparkSink, folder: Path, *, writer: str, number: int
) -> None:
    """Write a batch of a stream to a table of Delta Lake, which skips a number that it has.

    writer  the same for all batches of a sink and a checkpoint.  Delta Lake's `txnAppId`
    number  ascending.  Delta Lake's `txnVersion`
    raises  SaveFailed
    """
    stamps = {"txnAppId": writer, "txnVersion": number}
    numbered = sink.model_copy(
        update={"save_mode": "append", "options": {**sink.options, **stamps}}
    )
    save_batch(rows, numbered, folder)


def save_batch(rows: DataFrame, sink: SparkSink, folder: Path) -> None:
    """Write a batch of a stream.

    raises  SaveFailed with one line: a long text ends the query as if it had succeeded (Spark 4.0)
    """
    try:
        save(rows, sink, folder)
    except (PySparkException, Py4JError) as error:
        raise SaveFailed(error_line(error)) from None
