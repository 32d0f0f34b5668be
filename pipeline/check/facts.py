"""Spark's functions and settings, recorded from Spark; the releases of PySpark that are tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FUNCTIONS_FILE: Final = Path(__file__).parent / "functions.tsv"
SETTINGS_FILE: Final = Path(__file__).parent / "settings.txt"
KINDS: Final = (
    "string",
    "int",
    "double",
    "decimal",
    "boolean",
    "date",
    "timestamp",
    "binary",
    "array",
    "map",
    "struct",
)
"""Kinds of types; a function accepts every type of a kind or none."""
UNKNOWN: Final = "?"
COMMON: Final = "="
"""The type of the first argument."""
ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Spark.

    most     None: without a bound
    result   a type of Spark, COMMON or UNKNOWN
    accepts  kinds of types for each of the first arguments
    """

    name: str
    least: int
    most: int | None
    result: str
    accepts: tuple[frozenset[str], ...]


def line_of(one: Function) -> str:
    """The line of a function in its file."""
    accepts = [
        ANY if len(kinds) == len(KINDS) else ",".join(kind for kind in KINDS if kind in kinds)
        for kinds in one.accepts
    ]
    most = "*" if one.most is None else str(one.most)
    return "\t".join([one.name, str(one.least), most, one.result, *accepts])


@cache
def functions() -> Mapping[str, Function]:
    """By name, in lower case."""
    found: dict[str, Function] = {}
    for line in FUNCTIONS_FILE.read_text(encoding="utf-8").splitlines():
        name, least, most, result, *accepts = line.split("\t")
        found[name] = Function(
            name,
            int(least),
            None if most == "*" else int(most),
            result,
            tuple(frozenset(KINDS if one == ANY else one.split(",")) for one in accepts),
        )
    return found


@cache
def settings() -> tuple[str, ...]:
    """The settings that Spark's classes name, and beginnings of such."""
    return tuple(SETTINGS_FILE.read_text(encoding="utf-8").split())
