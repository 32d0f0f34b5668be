"""The tests that tests/LIKELY_BUGS.md names exist."""

from __future__ import annotations

import ast
import re
from typing import Final

from tests.repository.sources import ROOT, Source

TABLE: Final = "tests/LIKELY_BUGS.md"
NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def test_every_test_that_the_table_of_likely_bugs_names_exists() -> None:
    text = (ROOT / TABLE).read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert len(named) > 100
    missing = [f"{path}::{name}" for path, name in named if not _exists(path, name)]
    assert not missing, "\n".join(missing)


def test_every_likely_bug_has_a_test_or_a_reason() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / TABLE).read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| bug ")
    ]
    without = [bug for bug, tests, reason in rows if not (tests or reason)]
    assert len(rows) == 47
    assert not without, without


def _exists(path: str, name: str) -> bool:
    if not (ROOT / path).is_file():
        return False
    return not name or any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        for node in Source(path).nodes
    )
