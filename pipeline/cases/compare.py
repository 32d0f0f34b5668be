"""Compares rows with those that a case expects, and says in lines how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isclose
from typing import Any, Final

from odradek.pipeline.spec.cases import Row
from odradek.pipeline.spec.written_float import WrittenFloat, dumps

RELATIVE: Final = 1e-9
"""How far a FLOAT or DOUBLE may be from what is expected."""
SHOWN_MAX: Final = 10
"""Rows of each list in a report."""


def differences(actual: Sequence[Row], expected: Sequence[Row], *, ordered: bool) -> list[str]:
    """Lines that say how rows differ; none when they are equal.

    A column that one of two rows lacks is null there.
    cost  rows squared where many differ
    """
    if ordered:
        missing, unexpected = _out_of_place(actual, expected)
    else:
        unexpected = list(actual)
        missing = [row for row in expected if not _take(unexpected, row)]
    return list(_lines(missing, unexpected))


def _take(rows: list[Row], expected: Row) -> bool:
    """Remove a row that equals the wanted one; returns whether there was one."""
    for number, row in enumerate(rows):
        if _differing(row, expected) == []:
            del rows[number]
            return True
    return False


def _out_of_place(actual: Sequence[Row], expected: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    for number, (row, expected_row) in enumerate(zip(actual, expected, strict=False)):
        if _differing(row, expected_row):
            return list(expected[number:]), list(actual[number:])
    count = min(len(actual), len(expected))
    return list(expected[count:]), list(actual[count:])


def _lines(missing: list[Row], unexpected: list[Row]) -> Iterator[str]:
    left = list(unexpected)
    for expected in missing[:SHOWN_MAX]:
        near = _nearest(left, expected)
        if near is None:
            yield f"missing     {_text(expected)}"
            continue
        left.remove(near)
        names = _differing(near, expected)
        differences = "; ".join(
            f"{name} is {_text(near.get(name))}, expected {_text(expected.get(name))}"
            for name in names
        )
        yield f"differs     {_text(near)}: {differences}"
    if len(missing) > SHOWN_MAX:
        yield f"... and {len(missing) - SHOWN_MAX} more that are missing or differ"
        return
    for row in left[:SHOWN_MAX]:
        yield f"unexpected  {_text(row)}"
    if len(left) > SHOWN_MAX:
        yield f"... and {len(left) - SHOWN_MAX} more that are unexpected"


def _nearest(rows: Sequence[Row], expected: Row) -> Row | None:
    """The row with the most equal columns, when they are half of them at least."""
    best = min(rows, key=lambda row: len(_differing(row, expected)), default=None)
    if best is None:
        return None
    names = best.keys() | expected.keys()
    return best if 2 * len(_differing(best, expected)) <= len(names) else None


def _differing(row: Row, expected: Row) -> list[str]:
    names = dict.fromkeys([*expected, *row])
    return [name for name in names if not is_equal(row.get(name), expected.get(name))]


def is_equal(actual: Any, expected: Any) -> bool:
    """Whether a value equals one of TOML or JSON; times are compared as times.

    actual  a float is that of a DOUBLE or FLOAT, which may differ a little; int and Decimal are
            compared exactly
    """
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, int | float | Decimal) and isinstance(expected, int | float | Decimal):
        if isinstance(actual, float):
            return isclose(actual, expected, rel_tol=RELATIVE)
        return _exact(actual) == _exact(expected)
    if isinstance(actual, dict) and isinstance(expected, dict):
        return not _differing(actual, expected)
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(is_equal, actual, expected))
    if actual == expected:
        return True
    at, wanted_at = _time(actual), _time(expected)
    return at is not None and at == wanted_at


def _exact(number: float | Decimal) -> Decimal:
    """The number as it is written."""
    if isinstance(number, WrittenFloat):
        return number.decimal
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def _time(value: object) -> datetime | None:
    """A time, of a date its beginning; without an offset it is in UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _text(value: object) -> str:
    return dumps(value, str)
