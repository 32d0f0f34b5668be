"""Upserts rows into a table of a database by key, so that a repeated batch changes nothing.

Spark's tasks write a batch to a staging table; then the driver merges it in one transaction.  A
crash before the merge leaves the table unchanged; after it, the batch is repeated without effect.
The staging table belongs to one query, whose next batch replaces what a crash has left in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.pipeline.causes import error_line, first_line, java_messages
from odradek.pipeline.spec.endpoints import TableSink, without_options
from odradek.pipeline.transforms.columns import quoted

DRIVERS: Final = {"sqlite": "org.sqlite.JDBC", "postgresql": "org.postgresql.Driver"}
TYPES: Final = {
    "sqlite": {
        "string": "TEXT",
        "double": "REAL",
        "float": "REAL",
        "binary": "BLOB",
        "tinyint": "INTEGER",
        "smallint": "INTEGER",
        "int": "INTEGER",
    },
    "postgresql": {
        "string": "TEXT",
        "tinyint": "SMALLINT",
        "int": "INTEGER",
        "double": "DOUBLE PRECISION",
        "float": "REAL",
        "binary": "BYTEA",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "timestamp_ntz": "TIMESTAMP",
    },
}
"""Spark's type -> the type of the database, where they differ."""
SQLITE_FORMATS: Final[dict[type[DataType], str]] = {
    TimestampType: "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    TimestampNTZType: "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    DateType: "yyyy-MM-dd",
}
"""SQLite has no types for times: they are stored as text that sorts by time."""
SQLITE_OPTIONS: Final = {"busy_timeout": "60000", "transaction_mode": "IMMEDIATE"}
"""Milliseconds to wait for other writers.  The write lock is taken before the first read, since
SQLite does not wait when a reader becomes a writer."""
CREATED_MEANWHILE: Final = frozenset({"23505", "42P07"})
"""SQLSTATEs of a CREATE TABLE that runs at the same time as another one for the same table:
unique_violation, duplicate_table."""
IDENTIFIER_LENGTH_MAX: Final = 63
"""PostgreSQL truncates longer names."""

_sqlite_writers: dict[str, Lock] = {}
_sqlite_writers_lock: Final = Lock()


class UpsertFailed(Exception):
    """The database rejects rows or statements; the message gives the reason."""


def upsert(rows: DataFrame, url: str, sink: TableSink, *, owner: str) -> None:
    """Insert rows, or replace those with the same key.

    Of the rows of a batch with one key, the one with the greatest `latest_by` is written, then with
    the greatest values of the other columns, so that a repeated batch chooses the same row.

    owner   name of the staging table's owner: one per query
    raises  UpsertFailed; PySparkException when the rows cannot be computed
    """
    database = _database(url)
    _check(rows, sink)
    rows = _one_per_key(rows, sink)
    if database == "sqlite":
        rows = _for_sqlite(rows)
    staging = staging_name(sink.table, owner)
    alone = _sqlite_writer(url) if database == "sqlite" else nullcontext()
    try:
        with alone:
            with _transaction(rows.sparkSession, url, database) as connection:
                if sink.create:
                    _create_once(connection, _create(sink.table, rows, database, sink.keys))
                _check_columns(connection, rows, sink, database)
                _execute(connection, f"DROP TABLE IF EXISTS {staging}")
                staged = rows.toDF(*_staged(rows.columns))
                _execute(connection, _create(staging, staged, database))
            _stage(staged, url, staging, database)
            with _transaction(rows.sparkSession, url, database) as connection:
                _check_keys(connection, staging, sink, rows.columns)
                _execute(connection, _merge(sink, staging, rows.columns))
                _execute(connection, f"DROP TABLE {staging}")
    except Py4JJavaError as error:
        said = first_line(java_messages(error.java_exception)[-1])
        raise UpsertFailed(f"table {sink.table} of {without_options(url)}: {said}") from error


def batch_writer(url: str, sink: TableSink, *, owner: str) -> Callable[[DataFrame, int], None]:
    """`upsert` as a function for foreachBatch.

    Failures are raised as UpsertFailed with one line and without a cause: Spark 4.0 searches the
    text of an error with a regular expression that overflows the stack on a long text, and a query
    that ends so is reported as successful.
    """

    def write(rows: DataFrame, _: int) -> None:
        try:
            upsert(rows, url, sink, owner=owner)
        except (UpsertFailed, PySparkException, Py4JError) as error:
            raise UpsertFailed(error_line(error)) from None

    return write


def staging_name(table: str, owner: str) -> str:
    """The name of the staging table of a query, in the schema of the target table."""
    schema, dot, name = table.rpartition(".")
    suffix = f"_odradek_{hashlib.sha256(owner.encode()).hexdigest()[:12]}"
    is_quoted = name.startswith('"')
    bare = name.strip('"')[: IDENTIFIER_LENGTH_MAX - len(suffix)] + suffix
    return f"{schema}{dot}{_quoted(bare) if is_quoted else bare}"


def _database(url: str) -> str:
    parts = url.split(":")
    if len(parts) < 3 or parts[0] != "jdbc" or parts[1] not in DRIVERS:
        raise UpsertFailed(
            f"{without_options(url)} is not the address of jdbc:sqlite: or jdbc:postgresql:"
        )
    return parts[1]


def _check(rows: DataFrame, sink: TableSink) -> None:
    latest = [] if sink.latest_by is None else [sink.latest_by]
    for name in (*sink.keys, *latest):
        if name not in rows.columns:
            known = ", ".join(rows.columns)
            raise UpsertFailed(f"the rows have no column {name!r}; they have: {known}")
    for field in rows.schema.fields:
        if isinstance(field.dataType, ArrayType | MapType | StructType):
            raise UpsertFailed(
                f"column {field.name} is {field.dataType.simpleString()}, which no table takes;"
                f' make it text with a map step: {field.name} = "to_json({field.name})"'
            )


def _one_per_key(rows: DataFrame, sink: TableSink) -> DataFrame:
    others = [name for name in rows.columns if name not in sink.keys]
    if not others:
        return rows.dropDuplicates(list(sink.keys))
    first = [] if sink.latest_by is None else [F.col(quoted(sink.latest_by)).alias("latest")]
    greatest = F.max(
        F.struct(*first, F.struct(*(F.col(quoted(one)) for one in others)).alias("row"))
    )
    chosen = rows.groupBy(*(quoted(key) for key in sink.keys)).agg(greatest.alias("_greatest"))
    values: dict[str, Column] = {one: F.col("_greatest.row").getField(one) for one in others}
    return chosen.select(
        *(values[one].alias(one) if one in values else F.col(quoted(one)) for one in rows.columns)
    )


def _for_sqlite(rows: DataFrame) -> DataFrame:
    formats = {one.name: SQLITE_FORMATS.get(type(one.dataType)) for one in rows.schema.fields}
    times = {
        name: F.date_format(quoted(name), how) for name, how in formats.items() if how is not None
    }
    # SQLite has one writer at a time.
    return rows.withColumns(times).coalesce(1)


def _sqlite_writer(url: str) -> Lock:
    """The lock of a database file: one sink of this process writes at a time."""
    with _sqlite_writers_lock:
        return _sqlite_writers.setdefault(without_options(url), Lock())


@contextmanager
def _transaction(spark: SparkSession, url: str, database: str) -> Iterator[Any]:
    """A connection of the driver's JVM for one transaction."""
    jvm: Any = spark._jvm
    registry = jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry
    registry.register(DRIVERS[database])
    properties = jvm.java.util.Properties()
    for name, value in _options(database).items():
        properties.setProperty(name, value)
    connection = jvm.java.sql.DriverManager.getConnection(url, properties)
    try:
        connection.setAutoCommit(False)
        yield connection
        connection.commit()
    finally:
        connection.close()


def _options(database: str) -> dict[str, str]:
    return SQLITE_OPTIONS if database == "sqlite" else {}


def _stage(rows: DataFrame, url: str, staging: str, database: str) -> None:
    options = {"url": url, "dbtable": staging, "driver": DRIVERS[database], **_options(database)}
    try:
        rows.write.format("jdbc").options(**options).mode("append").save()
    except PySparkException as error:
        origin = getattr(error, "_origin", None)
        said = java_messages(origin)[-1] if origin is not None else str(error)
        raise UpsertFailed(f"rows for {without_options(url)}: {first_line(said)}") from error


def _check_columns(connection: Any, rows: DataFrame, sink: TableSink, database: str) -> None:
    statement = connection.createStatement()
    try:
        found = statement.executeQuery(f"SELECT * FROM {sink.table} WHERE 1 = 0").getMetaData()
        known = [found.getColumnName(number + 1) for number in range(found.getColumnCount())]
    finally:
        statement.close()
    ours = {name.lower() if database == "sqlite" else name for name in known}
    missing = [
        name
        for name in rows.columns
        if (name.lower() if database == "sqlite" else name) not in ours
    ]
    if missing:
        raise UpsertFailed(
            f"table {sink.table} has no column {', '.join(missing)}; it has: {', '.join(known)}"
        )


def _staged(columns: Sequence[str]) -> list[str]:
    """Column names of the staging table: Spark's writer does not escape quotes in a name."""
    return [f"c{number}" for number in range(len(columns))]


def _check_keys(connection: Any, staging: str, sink: TableSink, columns: Sequence[str]) -> None:
    """Reject null keys: SQLite accepts any number of nulls in a primary key."""
    placed = dict(zip(columns, _staged(columns), strict=True))
    empty = " OR ".join(f"{placed[key]} IS NULL" for key in sink.keys)
    statement = connection.createStatement()
    try:
        found = statement.executeQuery(f"SELECT 1 FROM {staging} WHERE {empty} LIMIT 1")
        is_there = found.next()
        found.close()
    finally:
        statement.close()
    if is_there:
        keys = ", ".join(sink.keys)
        raise UpsertFailed(f"a row for table {sink.table} has null in its key ({keys})")


def _execute(connection: Any, sql: str) -> None:
    statement = connection.createStatement()
    try:
        statement.execute(sql)
    finally:
        statement.close()


def _create_once(connection: Any, sql: str) -> None:
    """Run a CREATE TABLE IF NOT EXISTS, also while another connection creates the same table.

    PostgreSQL then waits for the other transaction, and fails with a duplicate key in its catalogue
    when that commits.  The table exists by then, so a second attempt succeeds.
    """
    before = connection.setSavepoint()
    try:
        _execute(connection, sql)
    except Py4JJavaError as error:
        state = getattr(error.java_exception, "getSQLState", lambda: None)()
        if state not in CREATED_MEANWHILE:
            raise
        connection.rollback(before)
        _execute(connection, sql)


def _create(table: str, rows: DataFrame, database: str, keys: Sequence[str] = ()) -> str:
    columns = [_column(field, database) for field in rows.schema.fields]
    if keys:
        columns.append(f"PRIMARY KEY ({', '.join(_quoted(key) for key in keys)})")
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})"


def _column(field: StructField, database: str) -> str:
    return f"{_quoted(field.name)} {_type(field.dataType, database)}"


def _type(spark_type: DataType, database: str) -> str:
    name = spark_type.simpleString()
    return TYPES[database].get(name) or name.upper()


def _merge(sink: TableSink, staging: str, columns: Sequence[str]) -> str:
    names = ", ".join(_quoted(name) for name in columns)
    staged = _staged(columns)
    placed = dict(zip(columns, staged, strict=True))
    keys = ", ".join(_quoted(key) for key in sink.keys)
    order = ", ".join(placed[key] for key in sink.keys)
    changed = [_quoted(name) for name in columns if name not in sink.keys]
    action = "DO NOTHING"
    if changed:
        action = "DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)
        if sink.latest_by is not None:
            latest = _quoted(sink.latest_by)
            action += f" WHERE t.{latest} IS NULL OR excluded.{latest} >= t.{latest}"
    # A task that Spark repeats may leave its rows twice: DISTINCT.  In one order of keys two
    # writers do not wait for each other in a circle.  "WHERE true" keeps SQLite from taking
    # ON CONFLICT for a join's ON.
    return (
        f"INSERT INTO {sink.table} AS t ({names})"
        f" SELECT DISTINCT {', '.join(staged)} FROM {staging} WHERE true ORDER BY {order}"
        f" ON CONFLICT ({keys}) {action}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
