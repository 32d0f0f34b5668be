"""Upserts into SQLite and into servers of PostgreSQL and MariaDB."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.databases import options_of
from odradek.pipeline.sinks.upsert import UpsertFailed, staging_name, upsert
from odradek.pipeline.spec.sinks import TableSink
from tests.support.compacted import wait_until
from tests.support.mariadb import MariaDb, mariadb
from tests.support.postgresql import PostgreSql, postgresql

TIMEOUT_S = 180.0

OWNER = "a query"
EVERY_TYPE = (
    "id BIGINT, part STRING, text STRING, real DOUBLE, small FLOAT, count INT, tiny TINYINT,"
    " short SMALLINT, flag BOOLEAN, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, bytes BINARY,"
    " price DECIMAL(12, 2)"
)
AT = datetime(2026, 3, 1, 12, 30, 15, 123456, UTC)
LOCAL = datetime(2026, 3, 1, 12, 30, 15, 5, UTC).replace(tzinfo=None)
FULL = (
    *(2**53 + 1, "it's", 'quoted "text" \U0001f600', 0.1, 1.5, -7, 127, -300, True),
    *(AT, LOCAL, date(2026, 2, 28), b"\x00\xff", Decimal("9999999999.99")),
)
EMPTY = (1, "", *([None] * 12))


@dataclass(frozen=True)
class Database:
    """A database of a test: its JDBC address, and queries for checks."""

    url: str
    server: PostgreSql | MariaDb | None
    file: Path

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement without Spark; servers return values as text."""
        if self.server is not None:
            return self.server.run(sql)
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(sql).fetchall()

    def tables(self) -> list[str]:
        """All tables, sorted."""
        if isinstance(self.server, MariaDb):
            rows = self.run("SHOW TABLES")
        elif self.server is not None:
            rows = self.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        else:
            rows = self.run("SELECT name FROM sqlite_master WHERE type = 'table'")
        return sorted(str(name) for (name,) in rows)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSql]:
    with postgresql(tmp_path_factory.mktemp("postgresql")) as started:
        yield started


@pytest.fixture(scope="module")
def other_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb(tmp_path_factory.mktemp("mariadb")) as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty database."""
    file = tmp_path / "rows.db"
    if request.param == "sqlite":
        return Database(f"jdbc:sqlite:{file}", None, file)
    if request.param == "mariadb":
        other: MariaDb = request.getfixturevalue("other_server")
        cleared = Database(other.url, other, file)
        for table in cleared.tables():
            other.run(f'DROP TABLE "{table}"')
        return cleared
    server: PostgreSql = request.getfixturevalue("server")
    server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return Database(server.url, server, file)


def sink(database: Database, keys: Sequence[str], **more: Any) -> TableSink:
    """A sink into the table `kept`."""
    return TableSink.model_validate(
        {"kind": "jdbc", "from": "x", "url": database.url, "table": "kept", "keys": list(keys)}
        | more
    )


def put(rows: DataFrame, database: Database, keys: Sequence[str], **more: Any) -> None:
    """Write a batch."""
    upsert(rows, database.url, sink(database, keys, **more), owner=OWNER)


def test_values_of_every_type_and_nulls_are_read_unchanged(
    spark: SparkSession, database: Database
) -> None:
    rows = spark.createDataFrame([FULL, EMPTY], EVERY_TYPE)
    put(rows, database, ["id", "part"])
    put(rows, database, ["id", "part"])
    options = {"url": database.url, "dbtable": "kept", **options_of(database.url)}
    if database.server is not None:
        frame = spark.read.format("jdbc").options(**options).load().orderBy("id")
        empty, full = (tuple(row) for row in frame.collect())
        assert empty == EMPTY
        assert full == (
            *FULL[:9],
            AT.replace(tzinfo=None),
            *FULL[10:12],
            bytearray(FULL[12]),
            FULL[13],
        )
    else:
        empty, full = database.run("SELECT * FROM kept ORDER BY id")
        assert empty == EMPTY
        times = ("2026-03-01T12:30:15.123456Z", "2026-03-01T12:30:15.000005", "2026-02-28")
        assert full == (*FULL[:9], *times, FULL[12], 9999999999.99)
    assert database.tables() == ["kept"], "no staging table stays"


def test_rows_of_one_key_are_replaced(spark: SparkSession, database: Database) -> None:
    keys = ["day", "shop"]
    put(
        spark.createDataFrame([(1, "a", 1.0), (1, "b", 2.0)], "day INT, shop STRING, sum DOUBLE"),
        database,
        keys,
    )
    put(
        spark.createDataFrame([(1, "b", 5.0), (2, "a", 7.0)], "day INT, shop STRING, sum DOUBLE"),
        database,
        keys,
    )
    rows = database.run("SELECT day, shop, sum FROM kept ORDER BY day, shop")
    assert [tuple(str(value) for value in row) for row in rows] in (
        [("1", "a", "1.0"), ("1", "b", "5.0"), ("2", "a", "7.0")],
        [("1", "a", "1"), ("1", "b", "5"), ("2", "a", "7")],
    )


@pytest.mark.usefixtures("two_partitions")
def test_repeated_batch_chooses_the_same_row_of_a_key(
    spark: SparkSession, database: Database
) -> None:
    rows = spark.createDataFrame(
        [(1, number % 4, number % 10) for number in range(40)], "id INT, a INT, b INT"
    )
    for parts in (1, 4, 7):
        put(rows.repartition(parts), database, ["id"])
        assert [tuple(map(int, row)) for row in database.run("SELECT * FROM kept")] == [(1, 3, 9)]


def test_older_row_by_latest_by_is_ignored(spark: SparkSession, database: Database) -> None:
    schema = "id INT, version INT, name STRING"
    for batch in (
        [(1, 5, "five"), (1, 4, "zzz")],
        [(1, 3, "three"), (2, 1, "one")],
        [(1, 6, "six")],
    ):
        put(spark.createDataFrame(batch, schema), database, ["id"], latest_by="version")
        if batch[0][1] != 6:
            ((name,),) = database.run("SELECT name FROM kept WHERE id = 1")
            assert name == "five"
    assert database.run("SELECT name FROM kept ORDER BY id") == [("six",), ("one",)]


CHANGES = "id INT, name STRING, deleted BOOLEAN, place BIGINT"


def test_deleted_rows_are_removed_in_the_order_of_latest_by(
    spark: SparkSession, database: Database
) -> None:
    def change(*rows: tuple[int, str | None, bool | None, int]) -> None:
        batch = spark.createDataFrame(rows, CHANGES)
        more = {"latest_by": "place", "delete_by": "deleted", "omit": ["place"]}
        for _ in range(2):
            put(batch, database, ["id"], **more)

    change((1, "a", False, 0), (2, "b", None, 1), (3, "c", False, 2), (4, None, True, 3))
    assert database.run("SELECT name FROM kept ORDER BY id") == [("a",), ("b",), ("c",)]
    change((1, None, True, 4), (2, "z", False, 5), (2, None, True, 6), (3, None, True, 7))
    assert database.run("SELECT name FROM kept ORDER BY id") == []
    change((1, None, True, 8), (1, "back", False, 9))
    assert database.run("SELECT name FROM kept ORDER BY id") == [("back",)]


def test_deletion_older_than_the_row_of_the_table_is_ignored(
    spark: SparkSession, database: Database
) -> None:
    more = {"latest_by": "place", "delete_by": "deleted"}
    for rows, count in (
        ([(1, "a", False, 5)], 1),
        ([(1, None, True, 4)], 1),
        ([(1, None, True, 5)], 0),
    ):
        put(spark.createDataFrame(rows, CHANGES), database, ["id"], **more)
        assert len(database.run("SELECT id FROM kept")) == count
    with pytest.raises(UpsertFailed, match="delete_by: column name is STRING, and not BOOLEAN"):
        put(
            spark.createDataFrame(rows, CHANGES),
            database,
            ["id"],
            latest_by="place",
            delete_by="name",
        )


UPDATES = "id INT, name STRING, n INT, unavailable ARRAY<STRING>, deleted BOOLEAN, place BIGINT"


def test_columns_that_are_not_known_keep_the_value_of_the_row_before(
    spark: SparkSession, database: Database
) -> None:
    chance = random.Random(7)
    more = {"latest_by": "place", "delete_by": "deleted", "keep_by": "unavailable"}
    table: dict[int, tuple[str | None, int | None]] = {}
    place = 0
    # Each batch costs a second or more; the last one is repeated.
    for size, attempts in ((5, 1), (9, 1), (15, 2)):
        rows: list[tuple[Any, ...]] = []
        for _ in range(size):
            key, place = chance.randrange(4), place + 1
            if key in table and chance.random() < 0.25:
                del table[key]
                rows.append((key, None, None, [], True, place))
                continue
            name = chance.choice([f"n{place}", None])
            unknown = [column for column in ("name", "n") if key in table and chance.random() < 0.5]
            before = table.get(key, (None, None))
            table[key] = (
                before[0] if "name" in unknown else name,
                before[1] if "n" in unknown else place,
            )
            given = (None if "name" in unknown else name, None if "n" in unknown else place)
            rows.append((key, *given, unknown or None if place % 2 else unknown, False, place))
        for _ in range(attempts):
            put(spark.createDataFrame(rows, UPDATES), database, ["id"], omit=["place"], **more)
        query = "SELECT id, coalesce(name, 'none'), coalesce(n, -1) FROM kept ORDER BY id"
        assert [tuple(map(str, row)) for row in database.run(query)] == [
            (str(key), name or "none", str(-1 if number is None else number))
            for key, (name, number) in sorted(table.items())
        ]
    alone = spark.createDataFrame([(99, None, 1, ["name"], False, 1)], UPDATES)
    with pytest.raises(UpsertFailed, match=r"keeps a value of the row before.*\(id = 99\)"):
        put(alone, database, ["id"], omit=["place"], **more)


def test_keys_differ_by_case_accents_and_spaces(spark: SparkSession, database: Database) -> None:
    names = ["a", "A", "a ", "ä", "\U0001f600"]
    rows = spark.createDataFrame([(name, 1) for name in names], "name STRING, n INT")
    for _ in range(2):
        put(rows, database, ["name"])
    assert len(database.run("SELECT n FROM kept")) == len(names)


def test_table_with_key_columns_only_is_written(spark: SparkSession, database: Database) -> None:
    rows = spark.createDataFrame([("a",), ("b",), ("a",)], "id STRING")
    put(rows, database, ["id"])
    put(rows, database, ["id"])
    assert database.run("SELECT id FROM kept ORDER BY id") == [("a",), ("b",)]


def test_further_columns_of_the_table_are_unchanged(
    spark: SparkSession, database: Database
) -> None:
    database.run("CREATE TABLE kept (id INTEGER PRIMARY KEY, note TEXT DEFAULT 'none', n INTEGER)")
    database.run("INSERT INTO kept VALUES (1, 'mine', 0)")
    put(spark.createDataFrame([(1, 5), (2, 6)], "id INT, n INT"), database, ["id"], create=False)
    rows = database.run("SELECT id, note, n FROM kept ORDER BY id")
    assert [(int(a), b, int(c)) for a, b, c in rows] == [(1, "mine", 5), (2, "none", 6)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "CREATE TABLE kept (id INTEGER PRIMARY KEY, m INTEGER)",
            "kept has no column n; it has: id, m",
        ),
        ("CREATE TABLE kept (id INTEGER, n INTEGER)", "table kept .*(ON CONFLICT|unique)"),
        (
            "CREATE TABLE other (id INTEGER)",
            "table kept of jdbc:.*(no such table|does(n't| not) exist)",
        ),
    ],
)
def test_unsuitable_table_is_reported_in_one_line(
    spark: SparkSession, database: Database, table: str, message: str
) -> None:
    database.run(table)
    with pytest.raises(UpsertFailed, match=message) as failed:
        put(spark.createDataFrame([(1, 5)], "id INT, n INT"), database, ["id"], create=False)
    assert "\n" not in str(failed.value)
    assert "staging" not in str(failed.value)


def test_unsupported_column_type_is_an_error(spark: SparkSession, database: Database) -> None:
    with pytest.raises(UpsertFailed, match="column tags is array<string>"):
        put(spark.createDataFrame([(1, ["a"])], "id INT, tags ARRAY<STRING>"), database, ["id"])
    with pytest.raises(UpsertFailed, match=r"no column 'key'; they have: id"):
        put(spark.createDataFrame([(1,)], "id INT"), database, ["key"])
    with pytest.raises(UpsertFailed, match=r"null in its key \(id\)"):
        put(spark.createDataFrame([(None, 1)], "id INT, n INT"), database, ["id"])
    assert database.run("SELECT * FROM kept") == []


@pytest.mark.usefixtures("two_partitions")
def test_failing_rows_leave_the_table_unchanged(spark: SparkSession, database: Database) -> None:
    put(spark.createDataFrame([(1, 5)], "id INT, n INT"), database, ["id"])
    bad = spark.sql(
        "SELECT CAST(id AS INT) AS id, CAST(assert_true(id < 3) AS INT) AS n FROM range(5)"
    )
    with pytest.raises(UpsertFailed, match="is not true"):
        put(bad, database, ["id"])
    assert [tuple(map(int, row)) for row in database.run("SELECT * FROM kept")] == [(1, 5)]


def test_staging_table_of_a_crash_is_removed(spark: SparkSession, database: Database) -> None:
    staging = staging_name("kept", OWNER)
    database.run(f"CREATE TABLE {staging} (id INTEGER, other TEXT)")
    database.run(f"INSERT INTO {staging} VALUES (9, 'left')")
    put(spark.createDataFrame([(1, 5)], "id INT, n INT"), database, ["id"])
    assert [tuple(map(int, row)) for row in database.run("SELECT * FROM kept")] == [(1, 5)]
    assert database.tables() == ["kept"]


def test_two_queries_can_write_at_the_same_time(spark: SparkSession, database: Database) -> None:
    """Each writes to its own table, and both write to a third."""
    batches = 4

    def work(worker: int) -> None:
        for batch in range(batches):
            rows = spark.range(batch * 100, batch * 100 + 150).selectExpr("id", f"{worker} AS n")
            for table in (f"kept_{worker}", "shared"):
                settings_of_sink = sink(database, ["id"], table=table)
                upsert(rows, database.url, settings_of_sink, owner=f"query {worker}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert database.tables() == ["kept_0", "kept_1", "shared"]
    for table in database.tables():
        ((count,),) = database.run(f"SELECT count(*) FROM {table}")
        assert int(count) == 450


def test_table_created_meanwhile_by_another_connection_is_used(
    spark: SparkSession, server: PostgreSql
) -> None:
    """PostgreSQL: CREATE TABLE IF NOT EXISTS fails when the other transaction commits."""
    server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    database = Database(server.url, server, Path())
    rows = spark.range(3).selectExpr("id", "1 AS n")
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    jvm: Any = spark._jvm
    driver = options_of(server.url)["driver"]
    jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(driver)
    with closing(jvm.java.sql.DriverManager.getConnection(server.url)) as other:
        other.setAutoCommit(False)
        other.createStatement().execute("CREATE TABLE kept (id BIGINT PRIMARY KEY, n INTEGER)")
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(put, rows, database, ["id"])
            wait_until("the writer waits", lambda: server.run(waiting) != [("0",)] or done.done())
            other.commit()
            done.result(TIMEOUT_S)
    assert server.run("SELECT sum(n) FROM kept") == [("3",)]


def test_open_reader_does_not_block_the_writer(spark: SparkSession, tmp_path: Path) -> None:
    """SQLite: a transaction that reads locks the file for a while."""
    file = tmp_path / "rows.db"
    database = Database(f"jdbc:sqlite:{file}", None, file)
    put(spark.range(10).selectExpr("id", "1 AS n"), database, ["id"])
    with (
        closing(sqlite3.connect(file, isolation_level=None)) as reader,
        ThreadPoolExecutor(1) as pool,
    ):
        reader.execute("BEGIN")
        assert len(reader.execute("SELECT * FROM kept").fetchall()) == 10
        rows = spark.range(20).selectExpr("id", "2 AS n")
        done = pool.submit(put, rows, database, ["id"])
        assert reader.execute("SELECT sum(n) FROM kept").fetchall() == [(10,)]
        reader.execute("COMMIT")
        done.result(TIMEOUT_S)
    assert database.run("SELECT sum(n) FROM kept") == [(40,)]


def test_long_table_name_is_shortened_for_the_staging_table() -> None:
    name = "a" * 63
    assert len(staging_name(name, OWNER)) == 63
    assert staging_name(name, OWNER) != staging_name(name, "another")
    assert staging_name("shop.orders", OWNER).startswith("shop.orders_odradek_")


def test_table_and_column_names_may_contain_any_characters(
    spark: SparkSession, database: Database
) -> None:
    """Spaces, dots, quotes, words of SQL; of columns and of the table."""
    names = ["a key", "c.d", 'q"uo`te', "select", "\u00e9"]
    rows = spark.createDataFrame([(1, "x", 2, 3, 4), (1, "x", 5, 6, 7)], names)
    for batch in (rows.limit(1), rows):
        put(batch, database, ["a key", "c.d"], table='"my table"', latest_by='q"uo`te')
    assert database.run('SELECT * FROM "my table"') in ([(1, "x", 5, 6, 7)], [("1", "x", *"567")])
    assert database.tables() == ["my table"], "no staging table stays"


def test_unreachable_server_is_reported_without_the_password(
    spark: SparkSession, tmp_path: Path
) -> None:
    database = Database("jdbc:postgresql://127.0.0.1:1/x?password=secret", None, tmp_path)
    with pytest.raises(UpsertFailed, match=r"jdbc:postgresql://127.0.0.1:1/x: .*refused") as failed:
        put(spark.range(1), database, ["id"])
    assert isinstance(failed.value.__cause__, Py4JJavaError)
    assert "secret" not in str(failed.value)
