"""What the analysis of a pipeline file has found, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from odradek.pipeline.spec.document import Document
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.problems import Problem, placed

SHOWN_MAX: Final = 20
SIMILAR: Final = 0.7
"""How similar a suggestion is to what was written, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake at a place of the file, or what may be one."""

    where: Path
    text: str
    is_warning: bool = False


def similar(name: str, candidates: Iterable[str], cutoff: float = SIMILAR) -> str | None:
    """The known name that is most similar to a written one, ignoring case; or None."""
    names = {candidate.lower(): candidate for candidate in candidates}
    matches = get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return names[matches[0]] if matches else None


def instead(name: str, candidates: Iterable[str]) -> str:
    """What may be meant by an unknown name, and what is known."""
    names = list(candidates)
    meant = similar(name, names)
    shown = ", ".join(names[:SHOWN_MAX]) + (", ..." if len(names) > SHOWN_MAX else "")
    there = f"there are: {shown}" if names else "there are none"
    return f"did you mean {meant}? {there}" if meant is not None else there


def mistakes_and_warnings(
    findings: Iterable[Finding], document: Document
) -> tuple[list[Problem], list[Problem]]:
    """Findings with the lines of the file, without its secrets."""
    mistakes: list[Problem] = []
    warnings: list[Problem] = []
    for finding in findings:
        text = document.hidden.at(finding.where, finding.text)
        problem = placed(finding.where, text, document.lines)
        (warnings if finding.is_warning else mistakes).append(problem)
    return mistakes, warnings
