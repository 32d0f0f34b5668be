"""Static folders of files, as tables that a stream is joined with."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.cases.report import assert_cases
from odradek.pipeline.jobs import inspection, run
from odradek.pipeline.jobs.built import Built
from odradek.pipeline.jobs.lookup_tables import lookup_tables, restart_after
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spark.gateway import file_system
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError

TIMEOUT_S = 120.0
FILE = """\
[pipeline]
name = "orders"
checkpoint = "state"

[sources.orders]
kind = "files"
path = "in"
format = "csv"
schema = "number INT, shop INT"

[sources.shops]
kind = "files"
path = "shops"
format = "csv"
schema = "shop INT, name STRING, opened TIMESTAMP"
options = { header = true }
static = true
refresh = "200 ms"

[sources.fixed]
kind = "files"
path = "fixed"
format = "csv"
schema = "shop INT, first STRING"
options = { header = true }
static = true

[steps.named]
kind = "join"
from = "orders"
right = "shops"
how = "left"
on = "l.shop = r.shop"
columns = { number = "l.number", shop = "l.shop", name = "r.name" }

[steps.compared]
kind = "join"
from = "named"
right = "fixed"
how = "left"
on = "l.shop = r.shop"
columns = { number = "l.number", name = "l.name", first = "r.first" }

[sinks.out]
kind = "files"
from = "compared"
path = "out"
format = "json"
"""


class Orders:
    """Orders of shops, one at a time, and what the pipeline makes of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        (folder / "in").mkdir()
        (folder / "shops").mkdir()
        (folder / "fixed").mkdir()

    def next(self, shop: int) -> tuple[str | None, str | None]:
        """Send an order of a shop; returns its name, and the one that the fixed table has."""
        number, self._count = self._count, self._count + 1
        new = self._folder / "order"
        new.write_text(f"{number},{shop}\n")
        new.rename(self._folder / f"in/{number}.csv")
        deadline_s = monotonic() + TIMEOUT_S
        while monotonic() < deadline_s:
            for file in (self._folder / "out").glob("*.json"):
                for row in map(json.loads, file.read_text().splitlines()):
                    if row["number"] == number:
                        return row.get("name"), row.get("first")
            threading.Event().wait(0.05)
        raise AssertionError(f"order {number} is not written")

    def until(self, shop: int, name: str | None) -> str | None:
        """Send orders of a shop until it has a name; returns the one of the fixed table."""
        deadline_s = monotonic() + TIMEOUT_S
        while monotonic() < deadline_s:
            name_of_shop, fixed = self.next(shop)
            if name_of_shop == name:
                return fixed
        raise AssertionError(f"shop {shop} is never {name}")


@contextmanager
def running(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Within, the pipeline runs; at the end it is stopped, and must not have failed.

    A batch that has read a file at the moment of its removal may have been repeated.
    """
    pipeline = parse(FILE, folder / "my.toml")
    built = run.build(spark, pipeline, folder)
    stopped = threading.Event()
    warnings: list[str] = []

    def work() -> None:
        run.run_stream(
            built,
            say=lambda failure, what_next: warnings.append(f"{failure}; {what_next}"),
            is_stopped=stopped.is_set,
        )

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        try:
            yield
        finally:
            stopped.set()
        done.result(TIMEOUT_S)
    assert all("; starts again in " in line for line in warnings), warnings


def test_failure_that_names_a_file_of_a_table_is_followed_by_a_start(tmp_path: Path) -> None:
    built = Built(parse(FILE, tmp_path / "my.toml"), tmp_path, {}, {}, {})
    lost = PartFailed(("sinks", "out"), f"File file:{tmp_path}/shops/0.csv does not exist")
    assert restart_after(built, lost) is not None
    other = PartFailed(("sinks", "out"), f"File file:{tmp_path}/in/0.csv does not exist")
    assert restart_after(built, other) is None


def test_files_that_are_added_replaced_and_removed_are_seen_after_the_refresh(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders = Orders(tmp_path)
    shops = tmp_path / "shops"
    (shops / "0.csv").write_text("shop,name,opened\n1,one,2026-01-01T00:00:00Z\n")
    fixed = tmp_path / "fixed" / "0.csv"
    fixed.write_text("shop,first\n1,one\n")
    with running(spark, tmp_path):
        assert orders.next(1) == ("one", "one")
        fixed.unlink()
        (shops / "1.csv").write_text("shop,name,opened\n2,two,\n")
        assert orders.until(2, "two") is None
        longer = tmp_path / "new.csv"
        longer.write_text("shop,name,opened\n1," + "uno" * 100 + ",\n")
        os.replace(longer, shops / "0.csv")
        assert orders.until(1, "uno" * 100) == "one", "a table without refresh stays as it was"
        (shops / "0.csv").unlink()
        assert orders.until(1, None) == "one"
        assert orders.next(2) == ("two", None)


def test_folder_that_is_missing_is_reported_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    pipeline = parse(FILE, tmp_path / "my.toml")
    with pytest.raises(PartFailed, match="does not exist") as failed:
        run.build(spark, pipeline, tmp_path)
    assert failed.value.where == ("sources", "shops")


def test_file_that_is_removed_while_its_folder_is_listed_is_no_failure(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Orders(tmp_path)
    removed = tmp_path / "shops" / "0.csv"
    removed.write_text("shop,name,opened\n1,one,\n")
    (tmp_path / "shops" / "1.csv").write_text("shop,name,opened\n2,two,\n")
    pipeline = parse(FILE, tmp_path / "my.toml")
    built = run.build(spark, pipeline, tmp_path)

    class Listing:
        """Hadoop's file system, where the file goes before its status is read."""

        def __init__(self, system: Any) -> None:
            self._system = system

        def listFiles(self, path: Any, is_recursive: bool) -> Any:
            files = self._system.listFiles(path, is_recursive)
            removed.unlink(missing_ok=True)
            return files

    def listing(spark: SparkSession, address: str) -> tuple[Any, Any]:
        system, path = file_system(spark, address)
        return Listing(system), path

    monkeypatch.setattr("odradek.pipeline.jobs.lookup_tables.file_system", listing)
    warnings: list[str] = []
    with lookup_tables(built, lambda *what: warnings.append(str(what))):
        assert [row.shop for row in built.views["shops"].collect()] == [2]
    assert not removed.exists()
    assert not warnings


def has_one_row(table: DataFrame) -> bool:
    """Also False while the table is of files that cannot be read, or are not there any more."""
    try:
        return table.count() == 1
    except Py4JError:
        return False


def test_folder_that_cannot_be_read_again_is_reported_and_read_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    Orders(tmp_path)
    text = FILE.replace(
        'format = "csv"\nschema = "shop INT, name', 'format = "parquet"\nschema = "shop INT, name'
    )
    text = text.replace(
        "options = { header = true }\nstatic = true\nrefresh", "static = true\nrefresh"
    )
    pipeline = parse(text, tmp_path / "my.toml")
    built = run.build(spark, pipeline, tmp_path)
    warnings: list[str] = []
    is_said = threading.Event()

    def say(failure: PartFailed, what_next: str) -> None:
        warnings.append(f"{failure}; {what_next}")
        is_said.set()

    with lookup_tables(built, say):
        assert built.views["shops"].count() == 0
        (tmp_path / "shops" / "0.parquet").write_text("no parquet")
        assert is_said.wait(TIMEOUT_S)
        assert warnings[0].startswith("sources.shops: ")
        assert warnings[0].endswith("; is read again in 0.2 s")
        (tmp_path / "shops" / "0.parquet").unlink()
        row = spark.sql("SELECT 1 AS shop, 'one' AS name, TIMESTAMP '2026-01-01' AS opened")
        row.write.parquet(str(tmp_path / "new"))
        (written,) = (tmp_path / "new").glob("*.parquet")
        written.rename(tmp_path / "shops" / "1.parquet")
        deadline_s = monotonic() + TIMEOUT_S
        while not has_one_row(built.views["shops"]):
            assert monotonic() < deadline_s, warnings


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('static = true\nrefresh = "200 ms"', 'refresh = "1 s"', "refresh: new files of a stream"),
        ('"200 ms"', '"200 ms"\nmax_files_per_trigger = 1', "a static folder is read as a whole"),
        ('"200 ms"', '"0 s"', "refresh"),
    ],
)
def test_impossible_table_is_refused(before: str, after: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(FILE.replace(before, after), Path("my.toml"))


CASES = """\
[[case]]
name = "orders of a stream get the names of their shops"
given.orders = [[{ number = 1, shop = 1 }], [{ number = 2, shop = 2 }]]
given.shops = [{ shop = 1, name = "one" }]
given.fixed = [{ shop = 2, first = "two" }]
expected.compared = [{ number = 1, name = "one" }, { number = 2, first = "two" }]
"""


def test_table_has_the_rows_of_a_case_a_preview_and_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "my.toml"
    file.write_text(FILE)
    cases = tmp_path / "my.test.toml"
    cases.write_text(CASES)
    assert_cases(file, spark=spark)
    Orders(tmp_path)
    (tmp_path / "in" / "0.csv").write_text("7,1\n")
    (tmp_path / "shops" / "0.csv").write_text("shop,name,opened\n1,one,2026-01-01T00:00:00Z\n")
    pipeline = parse(FILE, file)
    lines: list[str] = []
    inspection.check_plans(spark, pipeline, tmp_path, [])
    inspection.preview(spark, pipeline, tmp_path, lines.append, count=10, step="named")
    assert any(re.search(r"\b7\b.*\bone\b", line) for line in lines)
    batch = pipeline.in_mode("batch")
    run.run_batch(run.build(spark, batch, tmp_path))
    (row,) = spark.read.json(str(tmp_path / "out")).collect()
    assert (row["number"], row["name"]) == (7, "one")
