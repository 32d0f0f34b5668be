"""The examples on the page of keys: one for each kind of source, step and sink, run here."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs.generate import pipelines
from odradek.pipeline.cases.report import assert_cases
from odradek.pipeline.check.steps import analyse
from odradek.pipeline.jobs import run
from odradek.pipeline.spec.document import Outside
from odradek.pipeline.spec.load import PARTS, load
from tests.pipeline.crashes import read_records
from tests.pipeline.pipeline_files import faults
from tests.support.broker_process import BrokerProcess

EXAMPLES = sorted(
    path for path in pipelines.EXAMPLES.glob("*.toml") if not path.name.endswith(".test.toml")
)
ORDERS = """\
{"id": 1, "shop": "a", "amount": 2.5, "at": "2026-01-01T00:00:02Z"}
{"id": 2, "shop": "b", "amount": 3.5, "at": "2026-01-01T00:00:03Z"}
"""


def test_every_kind_has_an_example_that_uses_it() -> None:
    kinds = {
        f"{table}-{kind}": (table, kind)
        for table in ("sources", "steps", "sinks")
        for kind in PARTS[table]
    }
    names = {example.stem for example in EXAMPLES}
    assert names == set(kinds)
    for example in EXAMPLES:
        table, kind = kinds[example.stem]
        parts = getattr(load(example), table).values()
        assert kind in {part.kind for part in parts}


def test_page_has_every_example_with_its_cases() -> None:
    page = pipelines.render()
    for example in EXAMPLES:
        for file in (example, example.with_suffix(".test.toml")):
            assert file.read_text() in page


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_passes_its_cases(spark: SparkSession, example: Path) -> None:
    assert faults(example.read_text()) == []
    assert analyse(load(example), example.parent).findings == []
    assert_cases(example, spark=spark)


def run_example(spark: SparkSession, name: str, folder: Path, **environment: str) -> None:
    """Run an example of a sink on two orders."""
    (folder / "orders").mkdir()
    (folder / "orders" / "one.json").write_text(ORDERS)
    pipeline = load(pipelines.EXAMPLES / f"{name}.toml", outside=Outside(environment))
    run.run_batch(run.build(spark, pipeline, folder))


def test_examples_of_sinks_write_to_files_a_table_and_the_terminal(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("files", "jdbc", "console"):
        (tmp_path / name).mkdir()
        run_example(spark, f"sinks-{name}", tmp_path / name)
    folders = {path.name for path in (tmp_path / "files" / "by-shop").iterdir() if path.is_dir()}
    assert folders == {"shop=a", "shop=b"}
    with closing(sqlite3.connect(tmp_path / "jdbc" / "orders.db")) as table:
        assert table.execute("SELECT id, amount FROM orders ORDER BY id").fetchall() == [
            (1, 2.5),
            (2, 3.5),
        ]
    assert "|2  |b   |3.5   |" in capsys.readouterr().out


def test_example_of_a_kafka_sink_writes_records(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    run_example(spark, "sinks-kafka", tmp_path, BROKERS=broker.address)
    records = read_records(broker.address, "orders-by-shop")
    assert sorted((record.key(), record.value()) for record in records) == [
        (b"a", b'{"id":1,"amount":2.5}'),
        (b"b", b'{"id":2,"amount":3.5}'),
    ]
