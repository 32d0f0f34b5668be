"""Sources and sinks of kind spark, and files of ORC and text."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError

HEAD = '[pipeline]\nname = "ends"\nmode = "{mode}"\ncheckpoint = "state"\n'
ROWS = """
[sources.rows]
kind = "spark"
format = "json"
path = "in"
schema = "id BIGINT, name STRING"
options = { mode = "FAILFAST" }
"""


def go(spark: SparkSession, folder: Path, text: str, mode: str = "available_now") -> None:
    """Run a pipeline file to its end."""
    pipeline = parse(HEAD.format(mode=mode) + text, folder / "my.toml")
    built = run.build(spark, pipeline, folder)
    if mode == "batch":
        run.run_batch(built)
    else:
        run.wait(pipeline, run.start_stream(built))


def put(folder: Path, name: str, first: int, count: int) -> None:
    """Write a file of JSON rows."""
    (folder / "in").mkdir(exist_ok=True)
    rows = (f'{{"id": {number}, "name": "n{number}"}}\n' for number in range(first, first + count))
    (folder / "in" / name).write_text("".join(rows))


def test_connector_reads_and_writes_by_format_path_and_options(
    spark: SparkSession, tmp_path: Path
) -> None:
    sinks = (
        '[sinks.orc]\nkind = "spark"\nfrom = "rows"\nformat = "orc"\npath = "orc"\n'
        'partition_by = ["id"]\noptions = { compression = "none" }\n'
        '[sinks.whole]\nkind = "spark"\nfrom = "rows"\nformat = "csv"\npath = "whole"\n'
        'foreach_batch = true\nsave_mode = "overwrite"\noptions = { header = true }\n'
    )
    put(tmp_path, "a.json", 0, 3)
    go(spark, tmp_path, ROWS + sinks)
    put(tmp_path, "b.json", 3, 2)
    go(spark, tmp_path, ROWS + sinks)
    assert sorted(row.id for row in spark.read.orc(str(tmp_path / "orc")).collect()) == [*range(5)]
    assert sorted(path.name for path in (tmp_path / "orc").glob("id=*")) == [
        f"id={number}" for number in range(5)
    ]
    written = sorted(
        path.read_text() for path in (tmp_path / "whole").iterdir() if path.suffix == ".csv"
    )
    assert "".join(written).replace("id,name\n", "") == "3,n3\n4,n4\n", "the last batch alone"


def test_batch_appends_to_and_replaces_a_table(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "a.json", 0, 3)
    for mode, expected in (("append", 3), ("append", 6), ("overwrite", 3)):
        sink = (
            '[sinks.out]\nkind = "spark"\nfrom = "rows"\nformat = "parquet"\npath = "out"\n'
            f'save_mode = "{mode}"\n'
        )
        go(spark, tmp_path, ROWS + sink, "batch")
        spark.catalog.refreshByPath(str(tmp_path / "out"))
        assert spark.read.parquet(str(tmp_path / "out")).count() == expected


def test_static_source_is_joined_with_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "a.json", 0, 3)
    (tmp_path / "names.csv").write_text("id,label\n1,one\n2,two\n")
    text = """
[sources.names]
kind = "spark"
format = "csv"
path = "names.csv"
schema = "id BIGINT, label STRING"
options = { header = true }
static = true

[steps.named]
kind = "join"
from = "rows"
right = "names"
how = "left"
on = "l.id = r.id"
columns = { id = "l.id", label = "r.label" }

[sinks.out]
kind = "spark"
from = "named"
format = "json"
path = "out"
"""
    go(spark, tmp_path, ROWS + text)
    rows = spark.read.schema("id INT, label STRING").json(str(tmp_path / "out"))
    assert {(row.id, row.label) for row in rows.collect()} == {(0, None), (1, "one"), (2, "two")}


def test_orc_and_text_files_are_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "a.json", 0, 3)
    go(
        spark,
        tmp_path,
        ROWS + '[steps.lines]\nkind = "map"\nfrom = "rows"\nonly = true\n'
        'columns = { value = "name" }\n'
        '[sinks.text]\nkind = "files"\nfrom = "lines"\nformat = "text"\npath = "text"\n'
        '[sinks.orc]\nkind = "files"\nfrom = "rows"\nformat = "orc"\npath = "orc"\n',
    )
    go(
        spark,
        tmp_path,
        '[sources.text]\nkind = "files"\nformat = "text"\npath = "text"\nschema = "line STRING"\n'
        '[sources.orc]\nkind = "files"\nformat = "orc"\npath = "orc"\n'
        'schema = "id BIGINT, name STRING"\n'
        '[sinks.lines]\nkind = "files"\nfrom = "text"\nformat = "json"\npath = "lines"\n'
        '[sinks.rows]\nkind = "files"\nfrom = "orc"\nformat = "json"\npath = "rows"\n',
        "batch",
    )
    lines = spark.read.schema("line STRING").json(str(tmp_path / "lines"))
    rows = spark.read.schema("id INT, name STRING").json(str(tmp_path / "rows"))
    assert sorted(row.line for row in lines.collect()) == ["n0", "n1", "n2"]
    assert sorted(tuple(row) for row in rows.collect()) == [(0, "n0"), (1, "n1"), (2, "n2")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "in"', 'path = "in"\ntable = "lake.x"', "path and table exclude each other"),
        ('"id BIGINT, name STRING"', '"id BIGNT"', "BIGNT"),
        ("options", 'packages = ["mongo"]\noptions', "sources.rows.packages"),
        ("options", "foreach_batch = true\noptions", "an unknown key"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, old: str, new: str, message: str) -> None:
    sink = '[sinks.out]\nkind = "console"\nfrom = "rows"\n'
    assert old in ROWS
    with pytest.raises(SpecError, match=message):
        parse(HEAD.format(mode="batch") + ROWS.replace(old, new) + sink, tmp_path / "my.toml")


def test_unknown_connector_and_a_failed_batch_are_reported_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path, "a.json", 0, 3)
    unknown = '[sinks.out]\nkind = "spark"\nfrom = "rows"\nformat = "nosuch"\npath = "out"\n'
    with pytest.raises(PartFailed, match=r"sinks.out: .*nosuch"):
        go(spark, tmp_path, ROWS + unknown)
    failing = (
        '[sinks.two]\nkind = "spark"\nfrom = "rows"\nformat = "text"\npath = "out"\n'
        "foreach_batch = true\n"
    )
    with pytest.raises(
        PartFailed, match=r"sinks.two: The Text datasource doesn't support the column"
    ):
        go(spark, tmp_path, ROWS + failing)
