"""Cases of pipelines: given rows in, expected rows out, and what is said when they differ."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from odradek.pipeline.cases.compare import differences, is_equal
from odradek.pipeline.cases.report import assert_cases
from odradek.pipeline.cli import BAD_FILE, main
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.written_float import WrittenFloat

PIPELINE = """\
[pipeline]
name = "shops"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "${NOT_USED_IN_CASES:-localhost:1}"

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]
headers = true

[sources.towns]
kind = "jdbc"
url = "jdbc:sqlite:towns.db"
table = "towns"

[sources.returns]
kind = "files"
path = "returns"
format = "csv"
schema = "shop STRING, amount DOUBLE, at TIMESTAMP"
epoch = "s"

[steps.parsed]
kind = "parse"
from = "orders"
format = "json"
schema = "shop STRING, amount DOUBLE, at TIMESTAMP"
required = ["shop"]
rejects = "bad"
rejects_cluster = "main"

[steps.placed]
kind = "join"
from = "parsed"
right = "towns"
on = "l.shop = r.shop"
columns = { shop = "l.shop", amount = "l.amount", town = "r.town" }
how = "left"

[steps.per_shop]
kind = "window"
from = "parsed"
time = "at"
watermark = "10s"
length = "1 minute"
group_by = ["shop"]
aggregates = { total = "sum(amount)" }

[sinks.out]
kind = "kafka"
from = "per_shop"
cluster = "main"
topic = "totals"
key = "shop"
value = ["shop", "total"]

[sinks.returned]
kind = "files"
from = "returns"
path = "out"
format = "parquet"
"""
CASES = """\
[[case]]
name = "records are parsed, joined and summed"
given.orders = [
  { value = { shop = "a", amount = 2, at = 2026-01-01T00:00:05Z } },
  { value = { shop = "a", amount = 3.5, at = 2026-01-01T02:00:06+02:00 } },
  { value = { shop = "b", at = 2026-01-01T00:00:06 } },
  { key = "k", value = "no json", topic = "others", partition = 3, headers = { h = "v" } },
]
given.towns = [{ shop = "a", town = "Praha" }]
[case.expected]
parsed = [
  { shop = "a", amount = 2, at = 2026-01-01T00:00:05Z },
  { shop = "b", at = 2026-01-01T00:00:06Z },
  { shop = "a", amount = 3.5, at = "2026-01-01T00:00:06Z" },
]
placed = [
  { shop = "a", amount = 2, town = "Praha" },
  { shop = "a", amount = 3.5, town = "Praha" },
  { shop = "b" },
]
out = [{ key = "a", value = { shop = "a", total = 5.5 } }, { key = "b", value = { shop = "b" } }]
parsed_rejects = [
  { key = "k", value = "no json", headers = { h = "v", WHERE } },
]

[[case]]
name = "files have the times of their unit, and any order of rows"
given.returns = "returns.jsonl"
expected.returned = [
  { shop = "d", amount = 1.0 },
  { shop = "c", at = 1970-01-01T00:00:05Z },
]

[[case]]
name = "a window closes when the time of later batches has passed it"
columns = ["shop", "total"]
given.orders = [
  [{ value = { shop = "a", amount = 2, at = 2026-01-01T00:00:05Z } }],
  [{ value = { shop = "b", amount = 1, at = 2026-01-01T00:02:05Z } }],
  [],
  [{ value = { shop = "c", amount = 1, at = 2026-01-01T00:02:06Z } }],
  [{ value = { shop = "a", amount = 3, at = 2026-01-01T00:00:06Z } }],
]
expected.per_shop = [{ shop = "a", total = 2 }]
"""
# A table of TOML is in one line.
WHERE = (
    '"odradek.reason" = "not JSON", "odradek.topic" = "others", "odradek.partition" = "3", '
    '"odradek.offset" = "3", "odradek.timestamp" = "1767225600000"'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the pipeline and its cases."""
    (tmp_path / "shops.toml").write_text(PIPELINE)
    (tmp_path / "shops.test.toml").write_text(CASES.replace("WHERE", WHERE))
    rows = [{"shop": "c", "at": 5}, {"shop": "d", "amount": 1}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "returns.jsonl").write_text(f"\n{lines}")
    return tmp_path


def run(folder: Path, spark: SparkSession, cases: str, *settings: str) -> str:
    """What is said of cases that fail."""
    (folder / "shops.test.toml").write_text(cases)
    with pytest.raises(AssertionError) as caught:
        assert_cases(folder / "shops.toml", spark=spark, settings=settings)
    return re.sub(r" \([0-9.]+ s\)", "", str(caught.value)).replace(f"{folder}/", "")


def problems(folder: Path, cases: str) -> str:
    """What is said of a file of cases with errors."""
    (folder / "shops.test.toml").write_text(cases)
    with pytest.raises(SpecError) as caught:
        assert_cases(folder / "shops.toml")
    return str(caught.value).replace(f"{folder}/", "")


def test_cases_pass_for_records_files_tables_and_streams(folder: Path, spark: SparkSession) -> None:
    assert_cases(folder / "shops.toml", spark=spark)


def test_differences_are_shown_by_row_and_column(folder: Path, spark: SparkSession) -> None:
    output = run(
        folder,
        spark,
        """\
[[case]]
name = "wrong"
given.returns = [{ shop = "a", amount = 1 }, { shop = "b", amount = 2 }]
expected.returns = [{ shop = "a", amount = 1.5 }, { shop = "z", amount = 9, at = 2026-01-01 }]

[[case]]
name = "right"
given.returns = [{ shop = "a", amount = 1 }]
expected.returns = [{ shop = "a", amount = 1 }]

[[case]]
name = "fails"
set = { "steps.per_shop.aggregates.total" = "sum(none)" }
given.orders = []
expected.per_shop = []
""",
    )
    assert output.splitlines()[:-1] == [
        "cases have failed",
        "FAILED  shops.test.toml: line 1: wrong",
        '    returns: differs     {"shop": "a", "amount": 1.0, "at": null}: '
        "amount is 1.0, expected 1.5",
        '    returns: missing     {"shop": "z", "amount": 9, "at": "2026-01-01"}',
        '    returns: unexpected  {"shop": "b", "amount": 2.0, "at": null}',
        "FAILED  shops.test.toml: line 11: fails",
    ]
    assert "steps.per_shop: " in output.splitlines()[-1]
    assert "none" in output.splitlines()[-1]


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("", "case: must be given"),
        (
            '[[case]]\nname = "a"\ngiven = {}\nexpected.nothing = []\n',
            "line 4: case.0.expected.nothing: the pipeline has no 'nothing'; there are: orders,",
        ),
        (
            '[[case]]\nname = "a"\ngiven.parsed = []\nexpected.out = []\n',
            "line 3: case.0.given.parsed: the pipeline has no 'parsed'; there are: orders, towns,",
        ),
        (
            '[[case]]\nname = "a"\ngiven.towns = [[]]\nexpected.out = []\n',
            "line 3: case.0.given.towns: a table has no batches",
        ),
        (
            '[[case]]\nname = "a"\ngivn = {}\nexpected.out = []\n',
            "an unknown key; allowed: name, given, expected, columns, ordered, set",
        ),
        (
            2 * '[[case]]\nname = "a"\ngiven = {}\nexpected.out = []\n',
            "line 6: case.1.name: another case is called 'a'",
        ),
        (
            '[[case]]\nname = "a"\nset = { "sinks.out.x" = 1 }\ngiven = {}\nexpected.out = []\n',
            "--set: sinks.out.x: an unknown key",
        ),
    ],
)
def test_errors_of_case_files_have_their_lines(folder: Path, cases: str, message: str) -> None:
    assert message in problems(folder, cases)


def test_command_needs_a_file_of_cases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "shops.test.toml").unlink()
    assert main(["test", str(folder / "shops.toml")]) == BAD_FILE
    assert capsys.readouterr().err == f"{folder}/shops.test.toml: No such file or directory\n"


def test_given_rows_that_no_source_has_fail_the_case(folder: Path, spark: SparkSession) -> None:
    output = run(
        folder,
        spark,
        '[[case]]\nname = "a"\ngiven.orders = [{ offst = 1 }]\nexpected.orders = []\n',
    )
    assert "a record has no 'offst'; it has: key, value, topic, partition, offset" in output
    (folder / "rows.json").write_text('{"a": 1}\n[2]\n')
    output = run(
        folder, spark, '[[case]]\nname = "a"\ngiven.returns = "rows.json"\nexpected.returns = []\n'
    )
    assert output.endswith("rows.json: line 2: not a JSON object")
    output = run(folder, spark, '[[case]]\nname = "a"\ngiven = {}\nexpected.placed = []\n')
    assert output.endswith("towns: a jdbc source needs a row, which gives it columns")


@pytest.mark.parametrize(
    ("actual", "expected", "equal"),
    [
        (1.0, 1, True),
        (0.1 + 0.2, 0.3, True),
        (1, 2, False),
        (2**53 + 1, 2**53, False),
        (10**20, 10**20 + 1, False),
        (10**20, 1e20, True),
        (Decimal("12345678901234567.89"), WrittenFloat("12345678901234567.88"), False),
        (Decimal("12345678901234567.89"), WrittenFloat("12345678901234567.89"), True),
        (Decimal("1234567890.12"), 1234567890.13, False),
        (Decimal("1.10"), 1.1, True),
        (Decimal("1E+2"), 100, True),
        (1, True, False),
        (None, None, True),
        (None, 0, False),
        ("2026-01-01T00:00:00.000Z", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("2026-01-01T00:00:00.000Z", "2026-01-01T01:00:00+01:00", True),
        ("2026-01-01T00:00:00.001Z", datetime(2026, 1, 1, tzinfo=UTC), False),
        ("2026-01-01", date(2026, 1, 1), True),
        ("text", "other", False),
        ([1, {"a": None}], [1, {}], True),
        ([1], [1, 2], False),
    ],
)
def test_values_are_equal_as_numbers_times_and_structures(
    actual: object, expected: object, equal: bool
) -> None:
    assert is_equal(actual, expected) is equal


EXACT = """\
[pipeline]
name = "exact"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "localhost:9092"

[sources.orders]
kind = "kafka"
cluster = "main"
subscribe = ["orders"]

[steps.parsed]
kind = "parse"
from = "orders"
format = "json"
schema = "id BIGINT, amount DECIMAL(38, 2), text STRING, share DOUBLE"

[sinks.out]
kind = "kafka"
from = "parsed"
cluster = "main"
topic = "accepted"
"""
EXACT_CASE = """\
[[case]]
name = "numbers"
given.orders = [
  { value = { id = 9007199254740993, amount = 1234567890123456.13, text = 1.10, share = 0.1 } },
]
expected.parsed = [{ id = ID, amount = AMOUNT, text = "1.10", share = 0.10000000000001 }]
expected.out = [
  { value = { id = ID, amount = AMOUNT, text = "1.10", share = 0.10000000000001 } },
]
"""


def test_integers_and_decimals_of_rows_and_records_are_compared_exactly(
    tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "shops.toml").write_text(EXACT)

    def cases(number: str, amount: str) -> str:
        return EXACT_CASE.replace("ID", number).replace("AMOUNT", amount)

    for amount in ("1234567890123456.13", "1234567890123456.130"):
        (tmp_path / "shops.test.toml").write_text(cases("9007199254740993", amount))
        assert_cases(tmp_path / "shops.toml", spark=spark)
    for name, number, amount in (
        ("id", "9007199254740992", "1234567890123456.13"),
        ("amount", "9007199254740993", "1234567890123456.12"),
    ):
        output = run(tmp_path, spark, cases(number, amount))
        given, expected = (
            ("9007199254740993", number) if name == "id" else ("1234567890123456.13", amount)
        )
        assert f": {name} is {given}, expected {expected}" in output
        assert "out: missing" in output


def test_order_counts_where_a_case_says_so() -> None:
    rows = [{"a": 1}, {"a": 2}, {"a": 2}]
    assert differences(rows, [rows[1], rows[0], rows[2]], ordered=False) == []
    assert differences(rows, rows[:2], ordered=False) == ['unexpected  {"a": 2}']
    assert differences(rows, [rows[0], rows[2], rows[1]], ordered=True) == []
    assert differences(rows, [rows[1], rows[0], rows[2]], ordered=True) != []
    many = [{"a": number} for number in range(30)]
    assert differences(many, [], ordered=False)[-1] == "... and 20 more that are unexpected"
