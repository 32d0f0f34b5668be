"""Errors in a file, each with the place where it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

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


PROBLEMS_MAX: Final = 100


class SpecError(Exception):
    """A file has errors; `problems` are the first `PROBLEMS_MAX`, sorted by file and line.

    The text says how many more there are.
    """

    def __init__(self, problems: Sequence[Problem], more: int = 0) -> None:
        """more  errors that are not among `problems`"""
        ordered = sorted(problems, key=lambda problem: (problem.file, problem.line))
        self.problems = ordered[:PROBLEMS_MAX]
        more += len(ordered) - len(self.problems)
        lines = [f"{problem.file}: {problem}" for problem in self.problems]
        super().__init__("\n".join([*lines, *([f"and {more:,} more errors"] if more else [])]))


def placed(where: Path, text: str, lines: dict[Path, Line]) -> Problem:
    """A problem with the line of its key, or of the nearest enclosing table."""
    nearest = where
    while nearest not in lines:
        nearest = nearest[:-1]
    line = lines[nearest]
    return Problem(
        line.file, line.number, ".".join(_key(name) for name in where) or "the file", text
    )


def _key(name: object) -> str:
    text = str(name)
    return text if re.fullmatch(r"[\w.-]+", text) else json.dumps(text, ensure_ascii=False)
