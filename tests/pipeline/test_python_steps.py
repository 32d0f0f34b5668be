"""Functions of the user's modules as steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.problems import SpecError
from tests.pipeline.feeding import built, feed, in_batch, in_stream

SCHEMAS = {"rows": "id BIGINT, name STRING"}
ROWS = [{"id": number, "name": f"n{number}"} for number in range(5)]
MODULE = """
import odradek_rates

def price(ids, names):
    return ids * odradek_rates.RATE + names.str.len()

def shout(name):
    return name.upper() if name else None

def cheap(rows, below, column="price"):
    return rows.where(f"{column} < {below}")

def nothing(rows):
    return rows.columns

def fails(ids):
    raise ValueError("no price for these ids")
"""
STEPS = """
[steps.priced]
kind = "udf"
from = "rows"
function = "odradek_prices:price"
inputs = ["id", "name"]
column = "price"
returns = "DOUBLE"

[steps.loud]
kind = "udf"
from = "priced"
function = "odradek_prices:shout"
inputs = ["name"]
column = "name"
returns = "STRING"
pandas = false

[steps.kept]
kind = "python"
from = "loud"
step = "odradek_prices:cheap"
options = { below = 27.5 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """With two modules, the one using the other; both are forgotten afterwards."""
    (tmp_path / "odradek_prices.py").write_text(MODULE)
    (tmp_path / "odradek_rates.py").write_text("RATE = 10.0\n")
    feed(tmp_path / "rows", [ROWS[:2], ROWS[2:]])
    yield tmp_path
    for name in ("odradek_prices", "odradek_rates"):
        sys.modules.pop(name, None)


def test_functions_compute_columns_and_frames_in_batch_and_stream(
    spark: SparkSession, folder: Path
) -> None:
    expected = [(0, "N0", 2.0), (1, "N1", 12.0), (2, "N2", 22.0)]
    assert sorted(map(tuple, in_batch(spark, folder, STEPS, "kept", SCHEMAS))) == expected
    rows = in_stream(spark, folder, STEPS, ["kept"], SCHEMAS)["kept"]
    assert sorted(map(tuple, rows)) == expected
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("odradek_prices:shout", "odradek_none:shout", "odradek_none cannot be imported"),
        ("odradek_prices:shout", "odradek_prices:shut", "no function shut; it has: .*shout"),
        ("odradek_prices:cheap", "odradek_prices:nothing", "unexpected keyword"),
        ("{ below = 27.5 }", "{ belw = 27.5 }", "belw"),
    ],
)
def test_function_that_does_not_fit_is_reported(
    spark: SparkSession, folder: Path, old: str, new: str, message: str
) -> None:
    assert old in STEPS
    with pytest.raises(PartFailed, match=message):
        built(spark, folder, STEPS.replace(old, new), "batch", SCHEMAS)


def test_function_that_returns_no_frame_is_reported(spark: SparkSession, folder: Path) -> None:
    steps = STEPS.replace("odradek_prices:cheap", "odradek_prices:nothing")
    with pytest.raises(PartFailed, match="has returned list, and not a DataFrame"):
        built(spark, folder, steps.replace("below = 27.5", ""), "batch", SCHEMAS)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"odradek_prices:price"', '"odradek_prices.price"', "steps.priced.function"),
        ('"DOUBLE"', '"DUBLE"', "DUBLE"),
    ],
)
def test_mistakes_of_the_file_are_reported(
    spark: SparkSession, tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        built(spark, tmp_path, STEPS.replace(old, new), "batch", SCHEMAS)


def test_module_that_another_has_hidden_is_reported(spark: SparkSession, folder: Path) -> None:
    (folder / "tomllib.py").write_text(MODULE)
    steps = STEPS.replace("odradek_prices:shout", "tomllib:shout")
    with pytest.raises(PartFailed, match=r"another module tomllib is imported already: .*tomllib"):
        built(spark, folder, steps, "batch", SCHEMAS)
