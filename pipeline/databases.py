"""The databases of table sinks: drivers, types, options of connections, and statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import DataType, StructField


@dataclass(frozen=True, slots=True)
class Database:
    """A kind of database.

    types          Spark's type -> the type of the database, where they differ
    key_types      the same for columns of the primary key
    options        of its connections
    write_options  of those that write
    table_options  after the columns of a new table
    """

    driver: str
    types: Mapping[str, str]
    key_types: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    write_options: Mapping[str, str] = field(default_factory=dict)
    table_options: str = ""


DATABASES: Final = {
    "sqlite": Database(
        "org.sqlite.JDBC",
        {
            "string": "TEXT",
            "double": "REAL",
            "float": "REAL",
            "binary": "BLOB",
            "tinyint": "INTEGER",
            "smallint": "INTEGER",
            "int": "INTEGER",
        },
        # Milliseconds to wait for other writers.  The write lock is taken before the first read,
        # since SQLite does not wait when a reader becomes a writer.
        write_options={"busy_timeout": "60000", "transaction_mode": "IMMEDIATE"},
    ),
    "postgresql": Database(
        "org.postgresql.Driver",
        {
            "string": "TEXT",
            "tinyint": "SMALLINT",
            "int": "INTEGER",
            "double": "DOUBLE PRECISION",
            "float": "REAL",
            "binary": "BYTEA",
            "timestamp": "TIMESTAMP WITH TIME ZONE",
            "timestamp_ntz": "TIMESTAMP",
        },
    ),
    "mariadb": Database(
        "org.mariadb.jdbc.Driver",
        {
            "string": "LONGTEXT",
            "binary": "LONGBLOB",
            "timestamp": "DATETIME(6)",
            "timestamp_ntz": "DATETIME(6)",
        },
        # A key has a length.
        key_types={"string": "VARCHAR(255)", "binary": "VARBINARY(255)"},
        # Names are quoted as in SQL, values that do not fit are errors, times are in UTC.
        options={
            "sessionVariables": "sql_mode='ANSI_QUOTES,STRICT_ALL_TABLES'",
            "connectionTimeZone": "UTC",
            "forceConnectionTimeZoneToSession": "true",
        },
        # Texts are equal only when all their characters are.
        table_options=" CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
    ),
}


def options_of(url: str, *, writes: bool = False) -> dict[str, str]:
    """The driver of a JDBC address and the options of its connections; none if it is unknown.

    Java finds a driver only in jars that it started with, and so by its class.
    """
    database = DATABASES.get(url.removeprefix("jdbc:").partition(":")[0])
    if database is None:
        return {}
    more = database.write_options if writes else {}
    return {"driver": database.driver, **database.options, **more}


def create_table(
    table: str, fields: Sequence[StructField], database: Database, keys: Sequence[str] = ()
) -> str:
    """CREATE TABLE with the types of columns, and a primary key."""
    columns = [
        f"{quoted_name(field.name)} {_type(field.dataType, database, is_key=field.name in keys)}"
        for field in fields
    ]
    if keys:
        columns.append(f"PRIMARY KEY ({', '.join(map(quoted_name, keys))})")
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)}){database.table_options}"


def _type(spark_type: DataType, database: Database, *, is_key: bool) -> str:
    name = spark_type.simpleString()
    special = database.key_types.get(name) if is_key else None
    return special or database.types.get(name) or name.upper()


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge of a staging table into a table.

    columns  of the table, in the order of those of the staging table
    staged   names of the latter
    deleted  the column of the staging table that is 1 for a deleted row
    kept     its column with a digit for each column of the table: 1 where the table's value is kept
    latest   the column by which an older row does not replace a newer one
    """

    table: str
    staging: str
    columns: Sequence[str]
    staged: Sequence[str]
    keys: Sequence[str]
    deleted: str | None
    kept: str | None
    latest: str | None

    def statements(self, database: str) -> list[str]:
        """What one transaction executes."""
        deletes = [] if self.deleted is None else [self._delete(database)]
        return [*deletes, self._insert(database)]

    def _delete(self, database: str) -> str:
        placed = dict(zip(self.columns, self.staged, strict=True))
        conditions = [f"s.{placed[key]} = t.{quoted_name(key)}" for key in self.keys]
        conditions.append(f"s.{self.deleted} = 1")
        if self.latest is not None:
            latest = f"t.{quoted_name(self.latest)}"
            conditions.append(f"({latest} IS NULL OR s.{placed[self.latest]} >= {latest})")
        target = "t FROM" if database == "mariadb" else "FROM"
        return (
            f"DELETE {target} {self.table} AS t WHERE EXISTS"
            f" (SELECT 1 FROM {self.staging} AS s WHERE {' AND '.join(conditions)})"
        )

    def _insert(self, database: str) -> str:
        placed = dict(zip(self.columns, self.staged, strict=True))
        names = ", ".join(map(quoted_name, self.columns))
        order = ", ".join(f"s.{placed[key]}" for key in self.keys)
        live = self._live()
        # A task that Spark repeats may leave its rows twice: DISTINCT.  In one order of keys two
        # writers do not wait for each other in a circle.  "WHERE true" keeps SQLite from taking
        # ON CONFLICT for a join's ON.
        alias, action = self._on_duplicate() if database == "mariadb" else self._on_conflict()
        return (
            f"INSERT INTO {self.table}{alias} ({names})"
            f" SELECT DISTINCT {', '.join(self._values())} FROM {self._joined()} WHERE {live}"
            f" ORDER BY {order} {action}"
        )

    def rows_without_value(self) -> str | None:
        """A query of the keys of a row whose kept values the table does not have; at most one."""
        if self.kept is None:
            return None
        placed = dict(zip(self.columns, self.staged, strict=True))
        keys = ", ".join(f"s.{placed[key]}" for key in self.keys)
        return (
            f"SELECT {keys} FROM {self._joined()} WHERE {self._live()} AND s.{self.kept} LIKE '%1%'"
            f" AND o.{quoted_name(self.keys[0])} IS NULL LIMIT 1"
        )

    def _live(self) -> str:
        return "true" if self.deleted is None else f"s.{self.deleted} = 0"

    def _joined(self) -> str:
        """The staging table, with the rows of the table whose values may be kept."""
        if self.kept is None:
            return f"{self.staging} AS s"
        placed = dict(zip(self.columns, self.staged, strict=True))
        same = " AND ".join(f"o.{quoted_name(key)} = s.{placed[key]}" for key in self.keys)
        return f"{self.staging} AS s LEFT JOIN {self.table} AS o ON {same}"

    def _values(self) -> list[str]:
        values = [f"s.{name}" for name in self.staged]
        if self.kept is None:
            return values
        return [
            value
            if name in (*self.keys, self.latest)
            else f"CASE WHEN substr(s.{self.kept}, {number}, 1) = '1'"
            f" THEN o.{quoted_name(name)} ELSE {value} END"
            for number, (name, value) in enumerate(zip(self.columns, values, strict=True), 1)
        ]

    def _on_conflict(self) -> tuple[str, str]:
        keys = ", ".join(map(quoted_name, self.keys))
        changed = [quoted_name(name) for name in self.columns if name not in self.keys]
        action = "DO NOTHING"
        if changed:
            action = "DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)
            if self.latest is not None:
                latest = quoted_name(self.latest)
                action += f" WHERE t.{latest} IS NULL OR excluded.{latest} >= t.{latest}"
        return " AS t", f"ON CONFLICT ({keys}) {action}"

    def _on_duplicate(self) -> tuple[str, str]:
        changed = [quoted_name(name) for name in self.columns if name not in self.keys]
        if not changed:
            key = quoted_name(self.keys[0])
            return "", f"ON DUPLICATE KEY UPDATE {key} = {key}"
        if self.latest is None:
            values = [f"{name} = VALUES({name})" for name in changed]
        else:
            # Assignments see the values of those before them: the compared column is the last.
            latest = quoted_name(self.latest)
            is_newer = f"{latest} IS NULL OR VALUES({latest}) >= {latest}"
            ordered = sorted(changed, key=lambda name: name == latest)
            values = [f"{name} = IF({is_newer}, VALUES({name}), {name})" for name in ordered]
        return "", f"ON DUPLICATE KEY UPDATE {', '.join(values)}"


def quoted_name(name: str) -> str:
    """A name in the quotes of SQL."""
    return '"' + name.replace('"', '""') + '"'
