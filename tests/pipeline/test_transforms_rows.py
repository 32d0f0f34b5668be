"""Steps on single rows, compared with exact tables; the classifier."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.spec.steps import Deduplicate, Filter, Map, Mask, Route
from odradek.pipeline.transforms import rows as steps
from odradek.pipeline.transforms.apply import apply
from odradek.pipeline.transforms.classifier import train
from odradek.pipeline.transforms.columns import StepInputError
from odradek.pipeline.transforms.times import Bound

BOUND = Bound("step", "1 day")
PEOPLE = [
    (1, "Ann Lee", "4000123412341234", 10.0, True),
    (2, "Bob", "12", -1.0, False),
    (3, None, None, None, None),
    (4, "Zoë\nLee", "1234", 7.5, True),
    (5, "", "12345", 0.0, None),
]


def people(spark: SparkSession) -> DataFrame:
    """A small table with nulls."""
    return spark.createDataFrame(
        PEOPLE, "id INT, name STRING, card STRING, amount DOUBLE, is_member BOOLEAN"
    )


def ids(rows: DataFrame) -> list[int]:
    """The ids of the kept rows."""
    return sorted(row.id for row in rows.collect())


def filter_step(**settings: Any) -> Filter:
    """A filter."""
    return Filter.model_validate({"kind": "filter", "from": "rows", **settings})


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"where": "amount > 0"}, [1, 4]),
        ({"where": "amount > 0 OR name IS NULL"}, [1, 3, 4]),
        ({"matches": {"name": "Lee"}}, [1, 4]),
        ({"matches": {"name": "^Lee$"}}, []),
        ({"matches": {"name": "(?m)^Lee$"}}, [4]),
        ({"matches": {"name": "^.?[A-Z]", "card": "1234$"}}, [1, 4]),
        ({"matches": {"amount": r"\.0$"}}, [1, 2, 5]),
        ({"matches": {"name": "^$"}}, [5]),
        ({"equals": {"name": "Bob"}}, [2]),
        ({"equals": {"amount": 0}}, [5]),
        ({"equals": {"is_member": True}}, [1, 4]),
        ({"equals": {"is_member": True, "amount": 7.5}}, [4]),
        ({"where": "amount >= 0", "matches": {"card": "^1"}, "equals": {"id": 4}}, [4]),
    ],
)
def test_filter_keeps_rows_that_meet_all_conditions(
    spark: SparkSession, settings: dict[str, Any], left: list[int]
) -> None:
    kept = steps.keep(people(spark), filter_step(**settings), None)
    assert kept.columns == people(spark).columns
    assert ids(kept) == left


def test_filter_counts_equal_those_of_plain_python(spark: SparkSession) -> None:
    rng = random.Random(5)
    words = ["GET", "POST", "/index", "/cart", "404", "200", "bot", "curl/8", "é"]
    lines = [" ".join(rng.choices(words, k=4)) for _ in range(3_000)]
    lines_and_codes = [(line, rng.choice([200, 404, 500])) for line in lines]
    rows = spark.createDataFrame(lines_and_codes, "line STRING, code INT")
    pattern = r"^(GET|POST) .*\b(404|bot)\b"
    count = steps.keep(rows, filter_step(matches={"line": pattern}), None).count()
    assert count == sum(bool(re.search(pattern, line)) for line in lines)
    count = steps.keep(rows, filter_step(equals={"code": 404}), None).count()
    assert count == sum(code == 404 for _, code in lines_and_codes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"equals": {"name": 5}}, "equals: name is STRING and never 5"),
        ({"equals": {"amount": "5"}}, "equals: amount is DOUBLE and never '5'"),
        ({"equals": {"amount": True}}, "equals: amount is DOUBLE and never True"),
    ],
)
def test_value_of_another_type_in_equals_is_an_error(
    spark: SparkSession, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(StepInputError, match=re.escape(message)):
        steps.keep(people(spark), filter_step(**settings), None)


def letters(number: int, seed: int) -> list[tuple[str, str]]:
    """Texts of two classes whose words overlap."""
    rng = random.Random(seed)
    words = {
        "spam": ["winner", "prize", "free", "click", "now", "money", "today"],
        "ham": ["meeting", "report", "lunch", "today", "now", "project", "minutes"],
    }
    kinds = [rng.choice(["spam", "ham"]) for _ in range(number)]
    return [(" ".join(rng.choices(words[kind], k=6)), kind) for kind in kinds]


def test_trained_classifier_filters_rows(spark: SparkSession, tmp_path: Path) -> None:
    model = train(
        spark.createDataFrame(letters(300, 1), "line STRING, kind STRING"), "line", "kind"
    )
    model.save(str(tmp_path / "model"))
    unseen = letters(200, 2)
    rows = spark.createDataFrame(unseen, "line STRING, kind STRING")
    step = filter_step(model="model", text_column="line", keep_class="spam")
    kept = apply(spark, step, {"rows": rows}, tmp_path, BOUND).rows
    assert kept.columns == ["line", "kind"]
    called = [row.kind for row in kept.collect()]
    right = called.count("spam") + sum(kind == "ham" for _, kind in unseen) - called.count("ham")
    print(f"accuracy of the classifier on unseen texts: {right / len(unseen):.3f}")
    assert right / len(unseen) >= 0.95
    nothing = spark.createDataFrame([(None, "x")], "line STRING, kind STRING")
    assert apply(spark, step, {"rows": nothing}, tmp_path, BOUND).rows.count() <= 1


def test_map_adds_replaces_and_drops_columns(spark: SparkSession) -> None:
    rows = people(spark).where("id <= 3")
    columns = {"amount": "amount * 2", "before": "amount", "upper": "upper(name)"}
    step = Map.model_validate({"kind": "map", "from": "rows", "columns": columns})
    changed = steps.change(rows, step)
    assert changed.columns == ["id", "name", "card", "amount", "is_member", "before", "upper"]
    rows_after = [(row.amount, row.before, row.upper) for row in changed.orderBy("id").collect()]
    assert rows_after == [(20.0, 10.0, "ANN LEE"), (-2.0, -1.0, "BOB"), (None, None, None)]
    only = steps.change(rows, step.model_copy(update={"only": True}))
    assert only.columns == ["amount", "before", "upper"]


def masked(spark: SparkSession, how: str, column: str = "card", **settings: Any) -> list[Any]:
    """A column after the mask, ordered by id; the other columns are unchanged."""
    whole = {"kind": "mask", "from": "rows", "columns": [column], "how": how, **settings}
    result = steps.mask(people(spark), Mask.model_validate(whole))
    rows = result.orderBy("id").collect()
    place = result.columns.index(column)
    for row, before in zip(rows, PEOPLE, strict=True):
        assert [*row[:place], *row[place + 1 :]] == [*before[:place], *before[place + 1 :]]
    return [row[place] for row in rows]


def sha(text: str) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def test_mask_hides_values_by_every_method(spark: SparkSession) -> None:
    cards = ["4000123412341234", "12", None, "1234", "12345"]
    assert masked(spark, "hash") == [None if card is None else sha(card) for card in cards]
    salted = [None if card is None else sha("pepper" + card) for card in cards]
    assert masked(spark, "hash", salt="pepper") == salted
    assert masked(spark, "last4") == ["************1234", "**", None, "****", "*2345"]
    assert masked(spark, "last4", "name") == ["*** Lee", "***", None, "***\nLee", ""]
    assert masked(spark, "constant") == ["***", "***", None, "***", "***"]
    assert masked(spark, "constant", constant="?") == ["?", "?", None, "?", "?"]
    assert masked(spark, "null", "amount") == [None] * 5
    assert masked(spark, "hash", "amount")[0] == sha("10.0")


def test_mask_with_null_keeps_the_type_and_a_nested_field_is_an_error(spark: SparkSession) -> None:
    whole = {"kind": "mask", "from": "rows", "columns": ["amount"], "how": "null"}
    result = steps.mask(people(spark), Mask.model_validate(whole))
    assert result.schema["amount"].dataType.simpleString() == "double"
    nested = people(spark).selectExpr("struct(card) AS person")
    step = Mask.model_validate({**whole, "columns": ["person.card"]})
    with pytest.raises(StepInputError, match=r"person\.card is not a column; there are: person"):
        steps.mask(nested, step)


def routed(spark: SparkSession, otherwise: str | None) -> dict[int, str]:
    """Id -> topic."""
    rules = {"large": "amount >= 7.5", "members": "is_member", "named": "name <> ''"}
    whole = {"kind": "route", "from": "rows", "rules": rules, "otherwise": otherwise}
    result = steps.route(people(spark), Route.model_validate(whole))
    return {row.id: row.topic for row in result.collect()}


def test_route_uses_the_first_matching_rule(spark: SparkSession) -> None:
    assert routed(spark, None) == {1: "large", 2: "named", 4: "large"}
    assert routed(spark, "rest") == {1: "large", 2: "named", 3: "rest", 4: "large", 5: "rest"}


def test_deduplicate_in_a_batch_keeps_the_earliest_row(spark: SparkSession) -> None:
    table: Sequence[tuple[Any, ...]] = [
        ("a", 1, 30, "late"),
        ("a", 1, 10, "first"),
        ("a", 2, 20, "other"),
        (None, 1, 5, "null"),
        (None, 1, 6, "null again"),
    ]
    rows = spark.createDataFrame(list(table), "k STRING, n INT, at INT, what STRING")
    whole = {"kind": "deduplicate", "from": "rows", "keys": ["k", "n"], "time": "at"}
    left = steps.deduplicate(rows, Deduplicate.model_validate(whole))
    assert left.columns == rows.columns
    assert sorted(row.what for row in left.collect()) == ["first", "null", "other"]
