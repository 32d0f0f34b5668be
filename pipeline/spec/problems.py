"""Errors in a file, each with the place where it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.pipeline.spec.key_lines import Path


class Line(NamedTuple):
    """A file, and a line in it from 1; 0 for what is given on the command line."""

    file: str
    number: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a file."""

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        return f"line {self.line}: {key}{self.text}" if key and self.line else f"{key}{self.text}"


class SpecError(Exception):
    """A file has errors; `problems` are all of them, sorted by file and line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = sorted(problems, key=lambda one: (one.file, one.line))
        super().__init__("\n".join(f"{one.file}: {one}" for one in self.problems))


def placed(where: Path, text: str, lines: dict[Path, Line]) -> Problem:
    """A problem with the line of its key, or of the nearest enclosing table."""
    known = where
    while known not in lines:
        known = known[:-1]
    line = lines[known]
    return Problem(
        line.file, line.number, ".".join(_key(name) for name in where) or "the file", text
    )


def _key(name: object) -> str:
    text = str(name)
    return text if re.fullmatch(r"[\w.-]+", text) else json.dumps(text, ensure_ascii=False)
