"""NOT_DONE.md can be searched: three parts, tables and short entries."""

from __future__ import annotations

import re
from typing import Final

from tests.repository.sources import ROOT

PAGE: Final = (ROOT / "NOT_DONE.md").read_text(encoding="utf-8")
LINES_MAX: Final = 3
LINE_MAX: Final = 160


def test_missing_features_bounds_and_weaknesses_are_apart() -> None:
    parts = re.findall(r"^## (.*)", PAGE, re.M)
    assert parts == ["Missing features", "Bounds", "Known weaknesses"]


def test_no_paragraph_is_above_three_lines() -> None:
    paragraphs = re.split(r"\n\s*\n|\n(?=\* )", PAGE)
    offenders = [
        text.splitlines()[0]
        for text in paragraphs
        if not text.startswith("|")
        if len(text.strip().splitlines()) > LINES_MAX
        or any(len(line) > LINE_MAX for line in text.splitlines())
    ]
    assert not offenders, "\n".join(offenders)


def test_entries_begin_with_what_they_are_about() -> None:
    weaknesses = PAGE.partition("\n## Known weaknesses\n")[2]
    entries = re.findall(r"^\* .*", weaknesses, re.M)
    assert len(entries) > 20
    assert [entry for entry in entries if not re.match(r"\* (?:[A-Z]\w* )?\*\*", entry)] == []
