"""Reports a failure of a pipeline as a part of its file: name, line and reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.report.causes import error_line, failed_part
from odradek.pipeline.spec.document import written_lines
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.problems import SpecError, placed
from odradek.pipeline.transforms.columns import StepInputError

OFF: Final = logging.CRITICAL + 1
LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that log the Java stack trace of a raised error."""


WriteBatch = Callable[[DataFrame, int], None]
"""Writes a batch, which has a number, of a streaming query."""


class PartFailed(Exception):
    """A source, step or sink failed."""

    def __init__(self, where: Path, reason: str) -> None:
        super().__init__(f"{'.'.join(str(name) for name in where)}: {reason}")
        self.where = where
        self.reason = reason

    def line_of(self, path: FilePath) -> str:
        """The message with the part's line number in the file `path`."""
        try:
            lines = written_lines(path)
        except (OSError, SpecError):
            return f"{path}: {self}"
        problem = placed(self.where, self.reason, lines)
        return f"{problem.file}: {problem}"


@contextmanager
def part(where: Path, pipeline: PipelineSpec) -> Iterator[None]:
    """Within, an error of Spark, a step or a file becomes PartFailed of the part `where`.

    raises  PartFailed
    """
    try:
        yield
    except StepInputError as error:
        raise PartFailed(where, str(error)) from error
    except FileNotFoundError as error:
        raise PartFailed(where, f"{error.filename}: {error.strerror}") from error
    except (PySparkException, Py4JError) as error:
        raise PartFailed(
            failed_part(where, error, pipeline), error_line(error, pipeline)
        ) from error


def in_one_line(
    write: WriteBatch, failure: type[Exception], *others: type[Exception]
) -> WriteBatch:
    """A function for foreachBatch whose failures have one line and no cause.

    Spark 4.0 searches the text of an error with a regular expression that overflows the stack on a
    long text, and a query that ends so is reported as successful.

    failure  what is raised instead of it, of `others` and of Spark's errors
    """

    def write_or_fail(rows: DataFrame, number: int) -> None:
        try:
            write(rows, number)
        except (failure, *others, PySparkException, Py4JError) as error:
            raise failure(error_line(error)) from None

    return write_or_fail


def quieten(spark: SparkSession) -> None:
    """Turn Spark's log off, unless the pipeline file sets its level."""
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("OFF")
    for name in LOGGERS:
        # PySparkLogger.getLogger creates a logger of PySpark's class.
        PySparkLogger.getLogger(name).setLevel(OFF)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
