"""Upserts rows into a table of a database by key, so that a repeated batch changes nothing.

Spark's tasks write a batch to a staging table; then the driver merges it in one transaction.  A
crash before the merge leaves the table unchanged; after it, the batch is repeated without effect.
The staging table belongs to one query, whose next batch replaces what a crash has left in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.pipeline.databases import DATABASES, Merge, create_table, options_of, quoted_name
from odradek.pipeline.report.causes import first_line, java_messages
from odradek.pipeline.spark.gateway import java
from odradek.pipeline.spec.ends import without_options
from odradek.pipeline.spec.sinks import TableSink
from odradek.pipeline.transforms.columns import quoted

SQLITE_FORMATS: Final[dict[type[DataType], str]] = {
    TimestampType: "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    TimestampNTZType: "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    DateType: "yyyy-MM-dd",
}
"""SQLite has no types for times: they are stored as text that sorts by time."""
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
    """Insert rows, replace those with the same key, delete those that `delete_by` says.

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
    stored, staged = _divided(rows, sink)
    staging = staging_name(sink.table, owner)
    alone = _sqlite_writer(url) if database == "sqlite" else nullcontext()
    try:
        with alone:
            with _transaction(rows.sparkSession, url) as connection:
                kind = DATABASES[database]
                if sink.create:
                    created = create_table(sink.table, stored.schema.fields, kind, sink.keys)
                    _create_once(connection, created)
                _check_columns(connection, stored, sink, database)
                if database == "mariadb":
                    _check_unique(connection, sink)
                _execute(connection, f"DROP TABLE IF EXISTS {staging}")
                _execute(connection, create_table(staging, staged.schema.fields, kind))
            _stage(staged, url, staging)
            merge = _merge(sink, staging, stored.columns, staged.columns)
            with _transaction(rows.sparkSession, url) as connection:
                _check_keys(connection, merge)
                _check_kept(connection, merge)
                for statement in merge.statements(database):
                    _execute(connection, statement)
                # MariaDB commits before it drops a table.
                _execute(connection, f"DROP TABLE {staging}")
    except Py4JJavaError as error:
        reason = first_line(java_messages(error.java_exception)[-1])
        raise UpsertFailed(f"table {sink.table} of {without_options(url)}: {reason}") from error


def staging_name(table: str, owner: str) -> str:
    """The name of the staging table of a query, in the schema of the target table."""
    schema, dot, name = table.rpartition(".")
    suffix = f"_odradek_{hashlib.sha256(owner.encode()).hexdigest()[:12]}"
    is_quoted = name.startswith('"')
    bare = name.strip('"')[: IDENTIFIER_LENGTH_MAX - len(suffix)] + suffix
    return f"{schema}{dot}{quoted_name(bare) if is_quoted else bare}"


def _database(url: str) -> str:
    parts = url.split(":")
    if len(parts) < 3 or parts[0] != "jdbc" or parts[1] not in DATABASES:
        prefixes = ", ".join(f"jdbc:{name}:" for name in DATABASES)
        raise UpsertFailed(f"{without_options(url)} is not the address of {prefixes}")
    return parts[1]


def _check(rows: DataFrame, sink: TableSink) -> None:
    named = [name for name in (sink.latest_by, sink.delete_by, sink.keep_by) if name is not None]
    for name in (*sink.keys, *named, *sink.omit):
        if name not in rows.columns:
            columns = ", ".join(rows.columns)
            raise UpsertFailed(f"the rows have no column {name!r}; they have: {columns}")
    if sink.delete_by is not None:
        kind = rows.schema[sink.delete_by].dataType
        if not isinstance(kind, BooleanType):
            reason = f"column {sink.delete_by} is {kind.simpleString().upper()}"
            raise UpsertFailed(f"delete_by: {reason}, and not BOOLEAN")
    unstored = (*sink.omit, *([] if sink.keep_by is None else [sink.keep_by]))
    for field in rows.drop(*unstored).schema.fields:
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
        F.struct(*first, F.struct(*(F.col(quoted(other)) for other in others)).alias("row"))
    )
    grouped = rows.groupBy(*(quoted(key) for key in sink.keys))
    values: dict[str, Column] = {other: F.col("_greatest.row").getField(other) for other in others}
    if sink.keep_by is None:
        chosen = grouped.agg(greatest.alias("_greatest"))
    else:
        kept = [name for name in _stored(rows, sink) if name not in (*sink.keys, sink.latest_by)]
        newest = [_newest_known(name, sink).alias(f"_k{n}") for n, name in enumerate(kept)]
        chosen = grouped.agg(greatest.alias("_greatest"), *newest)
        names = values[sink.keep_by]
        unknown = []
        for number, name in enumerate(kept):
            earlier = F.col(f"_k{number}")
            is_unknown = F.coalesce(F.array_contains(names, name), F.lit(False))
            values[name] = F.when(is_unknown, earlier["value"]).otherwise(values[name])
            unknown.append(F.when(is_unknown & earlier.isNull(), F.lit(name)))
        values[sink.keep_by] = F.array_compact(F.array(*unknown).cast("array<string>"))
    return chosen.select(
        *(
            values[column].alias(column) if column in values else F.col(quoted(column))
            for column in rows.columns
        )
    )


def _newest_known(name: str, sink: TableSink) -> Column:
    """The newest value of a column among the rows of a key where it is known, with its place."""
    assert sink.keep_by is not None, "the caller has looked"
    assert sink.latest_by is not None, "the model requires it"
    names = F.coalesce(F.col(quoted(sink.keep_by)), F.array().cast("array<string>"))
    row = F.struct(
        F.col(quoted(sink.latest_by)).alias("latest"), F.col(quoted(name)).alias("value")
    )
    return F.max(F.when(~F.array_contains(names, name), row))


def _stored(rows: DataFrame, sink: TableSink) -> list[str]:
    """The columns of the table."""
    return [name for name in rows.columns if name not in (sink.delete_by, sink.keep_by, *sink.omit)]


def _divided(rows: DataFrame, sink: TableSink) -> tuple[DataFrame, DataFrame]:
    """The columns of the table, and those of the staging table, which says what is deleted.

    The staging table has names of its own: Spark's writer does not escape quotes in a name.
    """
    names = _stored(rows, sink)
    stored = rows.select(*map(quoted, names))
    marks = []
    if sink.delete_by is not None:
        is_deleted = F.coalesce(F.col(quoted(sink.delete_by)), F.lit(False))
        marks.append(is_deleted.cast("int").alias("_deleted"))
    if sink.keep_by is not None:
        unknown = F.col(quoted(sink.keep_by))
        marks.append(
            F.concat(
                *(F.when(F.array_contains(unknown, name), "1").otherwise("0") for name in names)
            ).alias("_kept")
        )
    staged = rows.select(*map(quoted, names), *marks)
    return stored, staged.toDF(*(f"c{number}" for number in range(len(staged.columns))))


def _for_sqlite(rows: DataFrame) -> DataFrame:
    formats = {field.name: SQLITE_FORMATS.get(type(field.dataType)) for field in rows.schema.fields}
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
def _transaction(spark: SparkSession, url: str) -> Iterator[Any]:
    """A connection of the driver's JVM for one transaction."""
    jvm = java(spark)
    registry = jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry
    options = options_of(url, writes=True)
    registry.register(options.pop("driver"))
    properties = jvm.java.util.Properties()
    for name, value in options.items():
        properties.setProperty(name, value)
    connection = jvm.java.sql.DriverManager.getConnection(url, properties)
    try:
        connection.setAutoCommit(False)
        yield connection
        connection.commit()
    finally:
        connection.close()


def _stage(rows: DataFrame, url: str, staging: str) -> None:
    options = {"url": url, "dbtable": staging, **options_of(url, writes=True)}
    try:
        rows.write.format("jdbc").options(**options).mode("append").save()
    except PySparkException as error:
        origin = getattr(error, "_origin", None)
        message = java_messages(origin)[-1] if origin is not None else str(error)
        raise UpsertFailed(f"rows for {without_options(url)}: {first_line(message)}") from error


def _check_columns(connection: Any, rows: DataFrame, sink: TableSink, database: str) -> None:
    with _results(connection, f"SELECT * FROM {sink.table} WHERE 1 = 0") as results:
        metadata = results.getMetaData()
        columns = [
            metadata.getColumnName(number + 1) for number in range(metadata.getColumnCount())
        ]
    ours = {name.lower() if database == "sqlite" else name for name in columns}
    missing = [
        name
        for name in rows.columns
        if (name.lower() if database == "sqlite" else name) not in ours
    ]
    if missing:
        raise UpsertFailed(
            f"table {sink.table} has no column {', '.join(missing)}; it has: {', '.join(columns)}"
        )


def _check_unique(connection: Any, sink: TableSink) -> None:
    """Reject a table without a unique index of the keys: MariaDB would insert a row twice."""
    indexes: dict[str, set[str]] = {}
    with _results(connection, f"SHOW INDEX FROM {sink.table} WHERE Non_unique = 0") as columns:
        while columns.next():
            index = indexes.setdefault(columns.getString("Key_name"), set())
            index.add(columns.getString("Column_name"))
    if set(sink.keys) not in indexes.values():
        keys = ", ".join(sink.keys)
        raise UpsertFailed(f"table {sink.table} has no unique index of its keys ({keys})")


def _check_keys(connection: Any, merge: Merge) -> None:
    """Reject null keys: SQLite accepts any number of nulls in a primary key."""
    placed = dict(zip(merge.columns, merge.staged, strict=True))
    empty = " OR ".join(f"{placed[key]} IS NULL" for key in merge.keys)
    with _results(connection, f"SELECT 1 FROM {merge.staging} WHERE {empty} LIMIT 1") as nulls:
        is_there = nulls.next()
    if is_there:
        keys = ", ".join(merge.keys)
        raise UpsertFailed(f"a row for table {merge.table} has null in its key ({keys})")


def _check_kept(connection: Any, merge: Merge) -> None:
    """Reject a row with a value that is not known, of a key that the table does not have."""
    query = merge.rows_without_value()
    if query is None:
        return
    key = None
    with _results(connection, query) as results:
        if results.next():
            values = [results.getString(number + 1) for number in range(len(merge.keys))]
            key = ", ".join(f"{n} = {value}" for n, value in zip(merge.keys, values, strict=True))
    if key is not None:
        raise UpsertFailed(
            f"a row for table {merge.table} keeps a value of the row before, which the table does"
            f" not have ({key}); load the table first, or make such rows dead letters:"
            ' unavailable = "reject" at the parse step'
        )


@contextmanager
def _results(connection: Any, query: str) -> Iterator[Any]:
    """The results of a query, of Java; they end with its statement."""
    statement = connection.createStatement()
    try:
        yield statement.executeQuery(query)
    finally:
        statement.close()


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


def _merge(sink: TableSink, staging: str, columns: Sequence[str], staged: Sequence[str]) -> Merge:
    deleted = None if sink.delete_by is None else staged[len(columns)]
    kept = None if sink.keep_by is None else staged[-1]
    latest = sink.latest_by if sink.latest_by in columns else None
    placed = staged[: len(columns)]
    return Merge(sink.table, staging, columns, placed, sink.keys, deleted, kept, latest)
