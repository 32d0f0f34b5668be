"""Columns by their names in a pipeline file, which may contain any characters, and their errors."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


class StepInputError(ValueError):
    """The input of a step lacks a column, or has a wrong type; the message is one line."""


def quoted(name: str) -> str:
    """A name in backquotes; without them Spark reads `a.b` as field b of column a."""
    return "`" + name.replace("`", "``") + "`"


def path_of(rows: DataFrame, name: str) -> str:
    """The path of the column with this whole name, or else of a field: `order.price`."""
    names = {column.lower() for column in rows.columns}
    return quoted(name) if name.lower() in names else name


def column(rows: DataFrame, name: str) -> Column:
    """The column with this whole name, or else a field: `order.price`."""
    return F.col(path_of(rows, name))
