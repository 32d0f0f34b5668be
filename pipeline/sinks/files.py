"""The commit log that Spark keeps in a folder of files."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.spark.gateway import file_system, java, java_rows, java_session
from odradek.pipeline.spec.field_types import texts
from odradek.pipeline.spec.sinks import FileSink
from odradek.pipeline.transforms.columns import StepInputError

DATA_SOURCE: Final = "org.apache.spark.sql.execution.datasources.DataSource"
COMMITS: Final = "_spark_metadata"
"""The folder of Spark's commit log, which lists the committed files."""


def check_batch_folder(spark: SparkSession, name: str, path: str) -> None:
    """Check that no stream has written to a folder.

    name    of the folder in the file
    raises  StepInputError
    """
    if last_batch(spark, f"{path}/{COMMITS}") is not None:
        raise StepInputError(f"{name} holds the files of a stream, whose readers see no others")


def check_folder(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Check that the commit log of a folder belongs to the checkpoint.

    Spark skips a batch whose number is in the commit log already.

    raises  StepInputError
    """
    written = last_batch(spark, f"{path}/{COMMITS}")
    begun = last_batch(spark, f"{checkpoint}/offsets")
    if written is not None and written > (-1 if begun is None else begun):
        raise StepInputError(
            f"{path} holds files of batches up to {written} that this checkpoint does not know:"
            f" another pipeline or checkpoint wrote them, and batches up to {written} would be left"
            " out; give another folder, or that checkpoint"
        )


def add_files(batch: DataFrame, sink: FileSink, path: str, number: int) -> None:
    """Write a batch of a stream to a folder, and its number to the commit log there.

    As the file sink of a query does it: a number that is in the commit log is skipped.
    """
    spark = batch.sparkSession
    jvm = java(spark)
    none = jvm.scala.Option.apply(None)
    convert = jvm.org.apache.spark.api.python.PythonUtils
    options = convert.toScalaMap({**texts(sink.options), "path": path})
    arguments = [
        java_session(spark),
        sink.format,
        convert.toSeq([]),
        none,
        convert.toSeq(list(sink.partition_by or ())),
        none,
        options,
        none,
    ]
    (maker,) = jvm.java.lang.Class.forName(DATA_SOURCE).getConstructors()
    further = maker.getParameterCount() - len(arguments)
    described = jvm.org.apache.spark.sql.execution.datasources.DataSource(
        *arguments, *[none] * further
    )
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    rows = java_rows(batch)
    # Spark 4.3 has a further option of the source, and asks for the columns of the sink.
    target = described.createSink(append, *[rows.schema()] * further)
    target.addBatch(number, rows)


def last_batch(spark: SparkSession, log: str) -> int | None:
    """The greatest batch number in one of Spark's logs; None when the log is empty."""
    files, path = file_system(spark, log)
    if not files.exists(path):
        return None
    names = [
        status.getPath().getName().removesuffix(".compact") for status in files.listStatus(path)
    ]
    return max((int(name) for name in names if name.isdecimal()), default=None)
