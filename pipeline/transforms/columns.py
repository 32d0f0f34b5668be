"""Columns by the names that a pipeline file gives them, whatever characters these have."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def quoted(name: str) -> str:
    """A name as Spark takes it where `a.b` would be the field b of a."""
    return "`" + name.replace("`", "``") + "`"


def path_of(rows: DataFrame, name: str) -> str:
    """A column of the rows by its whole name, else a field in one: `order.price`."""
    known = {one.lower() for one in rows.columns}
    return quoted(name) if name.lower() in known else name


def column(rows: DataFrame, name: str) -> Column:
    """The same as a column."""
    return F.col(path_of(rows, name))
