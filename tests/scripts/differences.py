"""Compares two recordings of a conversation, and knows which differences are accepted.

An accepted difference is a row of the table in tests/golden/differences.md:

    | where | Apache Kafka | Odradek | why |

*where* is `chapter / step / field path`, with `*` for any run of characters.  The two values are
JSON, or one of the words `any`, `text` (a string that is not empty), `number`, `nothing` (the field
or the element is not there).
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTHING = "<nothing>"
"""Stands for a value on a side that has none."""

COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Difference:
    """One field on which two brokers do not agree."""

    where: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.where}: Apache Kafka {self.theirs!r}, Odradek {self.ours!r}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A row of the table."""

    where: str
    theirs: str
    ours: str
    why: str

    def covers(self, difference: Difference) -> bool:
        """Whether the difference is this one."""
        pattern = self.where.replace("[", "[[]")
        return (
            fnmatch.fnmatchcase(difference.where, pattern)
            and is_value(self.theirs, difference.theirs)
            and is_value(self.ours, difference.ours)
        )


def is_value(text: str, value: Any) -> bool:
    """Whether a cell of the table tells this value."""
    match text:
        case "any":
            return True
        case "text":
            return isinstance(value, str) and value not in ("", NOTHING)
        case "number":
            return isinstance(value, int) and not isinstance(value, bool)
        case "nothing":
            return bool(value == NOTHING)
        case _:
            return bool(json.loads(text) == value)


def compare(where: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    """Differences in depth, in the order of the recording."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            yield from compare(f"{where} / {key}", theirs.get(key, NOTHING), ours.get(key, NOTHING))
    elif isinstance(theirs, list) and isinstance(ours, list):
        for index in range(max(len(theirs), len(ours))):
            yield from compare(
                f"{where} / {index}",
                theirs[index] if index < len(theirs) else NOTHING,
                ours[index] if index < len(ours) else NOTHING,
            )
    elif theirs != ours or type(theirs) is not type(ours):
        yield Difference(where, theirs, ours)


def read_accepted(file: Path) -> list[Accepted]:
    """The rows of the table; `\\|` in a cell is a bar."""
    rows: list[Accepted] = []
    for line in file.read_text().splitlines():
        if not line.startswith("|") or line.startswith(("| where", "|---")):
            continue
        cells = [
            cell.strip().strip("`").replace("\\|", "|")
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]
        ]
        assert len(cells) == COLUMNS, f"{len(cells)} cells instead of {COLUMNS}: {line}"
        assert cells[3], f"a difference without a reason: {line}"
        rows.append(Accepted(*cells))
    return rows
