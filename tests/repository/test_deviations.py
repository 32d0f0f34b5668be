"""docs/deviations.md has a row for each place that differs from Kafka on purpose."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from tests.repository.sources import ROOT, product, sources

PAGE: Final = ROOT / "docs" / "deviations.md"
ROW: Final = re.compile(r"^\| `([\w/]+\.py)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.M)
MARK: Final = "Differs from Kafka"


def test_each_difference_has_a_row_and_each_row_a_difference() -> None:
    rows = Counter(row[1] for row in ROW.finditer(PAGE.read_text(encoding="utf-8")))
    marks = Counter({file.name: count for file in product() if (count := file.text.count(MARK))})
    assert not marks - rows, "the page lacks a row of these"
    assert not rows - marks, "the page has a row too many of these"


def test_tests_that_the_rows_name_exist() -> None:
    defined = {
        name
        for source in sources(".py")
        if source.is_in("tests/")
        for name in re.findall(r"^(?:async )?def (test_\w+)", source.text, re.M)
    }
    named = {row[4].strip("` ") for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    assert named - defined == set()
