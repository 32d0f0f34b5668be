"""What ends a pipeline, in the words of its file: which part, at which line, and why."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from odradek.pipeline.causes import blamed, told
from odradek.pipeline.spec.load import SpecError, placed, text_of
from odradek.pipeline.spec.model import Pipeline
from odradek.pipeline.spec.positions import Path, lines_of
from odradek.pipeline.transforms.unfit import Unfit

OFF: Final = logging.CRITICAL + 1
LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Of PySpark, which write Java's stack beside what they raise."""


class PartFailed(Exception):
    """A source, step or sink that does not do what the file says."""

    def __init__(self, where: Path, said: str) -> None:
        super().__init__(f"{'.'.join(str(name) for name in where)}: {said}")
        self.where = where
        self.said = said

    def told(self, path: FilePath) -> str:
        """With the line of the part in its file."""
        try:
            lines = lines_of(text_of(path))
        except (OSError, SpecError):
            return f"{path}: {self}"
        return f"{path}: {placed(self.where, self.said, lines)}"


@contextmanager
def part(where: Path, pipeline: Pipeline) -> Iterator[None]:
    """What Spark, a step or a file says against a part is told of that part.

    raises  PartFailed
    """
    try:
        yield
    except Unfit as error:
        raise PartFailed(where, str(error)) from error
    except FileNotFoundError as error:
        raise PartFailed(where, f"{error.filename}: {error.strerror}") from error
    except (PySparkException, Py4JError) as error:
        raise PartFailed(blamed(where, error, pipeline), told(error, pipeline)) from error


def quieten(spark: SparkSession) -> None:
    """Failures are told in one line: Spark's own log is off unless the file sets its level."""
    if spark.conf.get("spark.log.level", None) is None:
        spark.sparkContext.setLogLevel("OFF")
    for name in LOGGERS:
        # As PySpark would make it: it has a class of its own.
        PySparkLogger.getLogger(name).setLevel(OFF)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
