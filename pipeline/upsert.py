"""Rows into a table of a database, by key: what a batch repeats changes nothing.

A batch is written to a staging table by Spark's tasks, then merged by the driver in one
transaction.  A crash before the merge leaves the table as it was; one after it is repeated to no
effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, TimestampType

from pipeline.spec.ends import TableSink

DRIVERS: Final = {"sqlite": "org.sqlite.JDBC", "postgresql": "org.postgresql.Driver"}
TYPES: Final = {
    "sqlite": {"string": "TEXT", "double": "REAL", "float": "REAL", "binary": "BLOB"},
    "postgresql": {
        "string": "TEXT",
        "byte": "SMALLINT",
        "double": "DOUBLE PRECISION",
        "float": "REAL",
        "binary": "BYTEA",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "timestamp_ntz": "TIMESTAMP",
    },
}
"""Spark's type -> the database's, where they differ."""
SPARK_NAMES: Final = {"tinyint": "byte", "bigint": "BIGINT", "int": "INTEGER"}
SQLITE_TIME: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


class UnknownDatabase(ValueError):
    """An address of neither SQLite nor PostgreSQL."""


def upsert(rows: DataFrame, url: str, sink: TableSink) -> None:
    """Insert rows, or replace those with the same key; of rows with one key in a batch one counts.

    raises  UnknownDatabase; py4j.protocol.Py4JJavaError from the database
    """
    database = _database(url)
    spark = rows.sparkSession
    rows = rows.dropDuplicates(sink.keys)
    if database == "sqlite":
        rows = _for_sqlite(rows)
    staging = f"{sink.table}_odradek_staging"
    with _connection(spark, url, database) as connection:
        if sink.create:
            _execute(connection, _create(sink.table, rows, database, sink.keys))
        _execute(connection, f"DROP TABLE IF EXISTS {staging}")
        _execute(connection, _create(staging, rows, database))
        connection.commit()
        options: dict[str, Any] = {"url": url, "dbtable": staging, "driver": DRIVERS[database]}
        if database == "sqlite":
            rows = rows.coalesce(1)  # One writer at a time is all that it takes.
        rows.write.format("jdbc").options(**options).mode("append").save()
        _execute(connection, _merge(sink, staging, rows.columns))
        _execute(connection, f"DROP TABLE {staging}")
        connection.commit()


def _database(url: str) -> str:
    parts = url.split(":")
    if len(parts) < 3 or parts[0] != "jdbc" or parts[1] not in DRIVERS:
        raise UnknownDatabase(f"{url} is not the address of jdbc:sqlite: or jdbc:postgresql:")
    return parts[1]


def _for_sqlite(rows: DataFrame) -> DataFrame:
    """It has no type for times: they are kept as text that sorts."""
    times = [
        field.name for field in rows.schema.fields if isinstance(field.dataType, TimestampType)
    ]
    return rows.withColumns({name: F.date_format(name, SQLITE_TIME) for name in times})


@contextmanager
def _connection(spark: SparkSession, url: str, database: str) -> Iterator[Any]:
    """A connection of the driver's JVM, without auto-commit."""
    jvm: Any = spark._jvm
    registry = jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry
    registry.register(DRIVERS[database])
    connection = jvm.java.sql.DriverManager.getConnection(url)
    try:
        connection.setAutoCommit(False)
        yield connection
    finally:
        connection.close()


def _execute(connection: Any, sql: str) -> None:
    statement = connection.createStatement()
    try:
        statement.execute(sql)
    finally:
        statement.close()


def _create(table: str, rows: DataFrame, database: str, keys: Sequence[str] = ()) -> str:
    columns = [_column(field, database) for field in rows.schema.fields]
    if keys:
        columns.append(f"PRIMARY KEY ({', '.join(_quoted(key) for key in keys)})")
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})"


def _column(field: StructField, database: str) -> str:
    return f"{_quoted(field.name)} {_type(field.dataType, database)}"


def _type(spark_type: DataType, database: str) -> str:
    name = spark_type.simpleString()
    return TYPES[database].get(name) or SPARK_NAMES.get(name) or name.upper()


def _merge(sink: TableSink, staging: str, columns: Sequence[str]) -> str:
    names = ", ".join(_quoted(name) for name in columns)
    keys = ", ".join(_quoted(key) for key in sink.keys)
    changed = [_quoted(name) for name in columns if name not in sink.keys]
    action = "DO NOTHING"
    if changed:
        action = "DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)
    # "WHERE true" keeps SQLite from taking ON CONFLICT for a join's ON.
    return (
        f"INSERT INTO {sink.table} ({names}) SELECT {names} FROM {staging} WHERE true"
        f" ON CONFLICT ({keys}) {action}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
