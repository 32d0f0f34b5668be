"""From a pipeline file to what it says, or to everything that is wrong with it, line by line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pipeline.spec.ends import Cluster, Sink, Source
from pipeline.spec.model import Head, Pipeline, faults
from pipeline.spec.positions import Path, lines_of
from pipeline.spec.steps import AnyStep

VALUE_LENGTH_MAX: Final = 80
M = TypeVar("M", bound=BaseModel)


def _by_kind(union: Any) -> dict[str | None, type[BaseModel]]:
    classes = get_args(get_args(union)[0])
    return {get_args(one.model_fields["kind"].annotation)[0]: one for one in classes}


PARTS: Final[dict[str | int, dict[str | None, type[BaseModel]]]] = {
    "pipeline": {None: Head},
    "clusters": {None: Cluster},
    "sources": _by_kind(Source),
    "steps": _by_kind(AnyStep),
    "sinks": _by_kind(Sink),
}
"""Table of the file -> `kind` -> what may stand there."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.text}" if self.key else self.text


class SpecError(Exception):
    """A pipeline file that cannot be run; `problems` are all that were found, by line."""

    def __init__(self, path: FilePath, problems: list[Problem]) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))
        self.problems = problems


def load(path: FilePath) -> Pipeline:
    """Read a pipeline file.

    raises  SpecError; OSError when the file cannot be read
    """
    return parse(text_of(path), path)


def parse(text: str, path: FilePath) -> Pipeline:
    """The same of a text; `path` names it in complaints."""
    return checked(text, path, Pipeline, allowed=_allowed, faults=faults)


def text_of(path: FilePath) -> str:
    """What stands in a file.

    raises  SpecError; OSError when it cannot be read
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(path, [Problem(1, "", f"not UTF-8: {error}")]) from error


def checked(
    text: str,
    path: FilePath,
    model: type[M],
    *,
    allowed: Callable[[Path, dict[Any, Any]], list[str]],
    faults: Callable[[M], Iterable[tuple[Path, str]]],
) -> M:
    """A file's text as a model of it.

    allowed  the keys of the table that an unknown key stands in
    faults   what is wrong between the parts
    raises   SpecError with all that is wrong, by line
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(path, [Problem(1, "", f"not TOML: {error}")]) from error
    lines = lines_of(text)
    try:
        whole = model.model_validate(document)
    except ValidationError as error:
        found = [problem(one, document, lines, allowed) for one in error.errors(include_url=False)]
        raise SpecError(path, sorted(found, key=lambda one: one.line)) from error
    wrong = [placed(where, said, lines) for where, said in faults(whole)]
    if wrong:
        raise SpecError(path, sorted(wrong, key=lambda one: one.line))
    return whole


def problem(
    error: ErrorDetails,
    document: dict[str, Any],
    lines: dict[Path, int],
    allowed: Callable[[Path, dict[Any, Any]], list[str]],
) -> Problem:
    """What a validator found, in the words of a file.

    allowed  the keys of the table that an unknown key stands in
    """
    where = _in_file(error["loc"], document, error["type"])
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "missing":
        said = "must be given"
    elif kind == "extra_forbidden":
        said = f"an unknown key; allowed: {', '.join(allowed(where, document))}"
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        where = (*where, "kind")
        tags = context.get("expected_tags", "")
        found = context.get("tag")
        given = "must be given" if found is None else f"{found!r} is not allowed"
        return placed(where, f"{given}; allowed: {tags}" if tags else given, lines)
    else:
        said = error["msg"].removeprefix("Value error, ")
        if kind != "value_error":
            said = f"{_shown(error['input'])} is not allowed: {said}"
    return placed(where, said, lines)


def _in_file(location: tuple[int | str, ...], document: Any, kind: str) -> Path:
    """Without what the validator puts between: the kinds of unions, types of values."""
    path: list[str | int] = []
    place = document
    for number, name in enumerate(location):
        is_last = number == len(location) - 1
        is_key = isinstance(place, dict) and name in place
        if is_key or (isinstance(place, list) and isinstance(name, int) and name < len(place)):
            path.append(name)
            place = place[name]
        elif is_last and kind == "missing":
            path.append(name)
    return tuple(path)


def _allowed(where: Path, document: dict[Any, Any]) -> list[str]:
    """The keys of the table that an unknown key stands in."""
    part: type[BaseModel] = Pipeline
    if len(where) > 1 and where[0] in PARTS:
        place = document[where[0]]
        if where[0] != "pipeline":
            place = place[where[1]]
        part = PARTS[where[0]].get(place.get("kind"), Pipeline)
    return [field.alias or name for name, field in part.model_fields.items()]


def placed(where: Path, text: str, lines: dict[Path, int]) -> Problem:
    """A problem at the line of its key, or of the nearest table above."""
    known = where
    while known not in lines:
        known = known[:-1]
    return Problem(lines[known], ".".join(str(name) for name in where) or "the file", text)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= VALUE_LENGTH_MAX else text[: VALUE_LENGTH_MAX - 3] + "..."
