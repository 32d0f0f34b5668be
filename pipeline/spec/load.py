"""Loads a pipeline file, or reports all its errors with their lines."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from odradek.pipeline.spec.endpoints import Cluster, Sink, Source
from odradek.pipeline.spec.key_lines import Path, lines_of
from odradek.pipeline.spec.model import Head, Pipeline, faults
from odradek.pipeline.spec.steps import AnyStep

VALUE_LENGTH_MAX: Final = 80
Mode = Literal["stream", "available_now", "batch"]
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
"""Table of the file -> `kind` -> its model."""


HEADS: Final = {"pipeline": "run, or check", "mirror": "mirror, with --check to check it"}
"""Head table of a file -> the commands that take such a file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a file."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.text}" if self.key else self.text


class SpecError(Exception):
    """The file has errors; `problems` are all of them, sorted by line."""

    def __init__(self, path: FilePath, problems: list[Problem]) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))
        self.problems = problems


def load(path: FilePath, mode: Mode | None = None) -> Pipeline:
    """Read a pipeline file.

    mode    overrides the mode in the file
    raises  SpecError; OSError when the file cannot be read
    """
    return parse(text_of(path), path, mode)


def parse(text: str, path: FilePath, mode: Mode | None = None) -> Pipeline:
    """Parse the text of a pipeline file; `path` is its name in errors.

    raises  SpecError
    """

    def moded(pipeline: Pipeline) -> Pipeline:
        return pipeline if mode is None else pipeline.in_mode(mode)

    def wrong(pipeline: Pipeline) -> Iterable[tuple[Path, str]]:
        return faults(moded(pipeline))

    return moded(checked(text, path, Pipeline, allowed=_allowed, faults=wrong))


def text_of(path: FilePath) -> str:
    """The text of a file.

    raises  SpecError when it is not UTF-8; OSError
    """
    try:
        return path.read_text(encoding="utf-8-sig")
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
    """Parse a text into a model.

    allowed  returns the allowed keys of the table that contains an unknown key
    faults   yields the errors between valid parts
    raises   SpecError with all errors, sorted by line, or with one when the file is for another
             command
    """
    try:
        document = tomllib.loads(text)
        lines = lines_of(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(path, [Problem(1, "", f"not TOML: {error}")]) from error
    except RecursionError as error:
        raise SpecError(path, [Problem(1, "", "arrays or tables are nested too deep")]) from error
    for table, command in HEADS.items():
        if table in document and table not in model.model_fields:
            said = f"a file with a table [{table}] is for: odradek pipeline {command}"
            raise SpecError(path, [Problem(lines.get((table,), 1), "", said)])
    try:
        whole = model.model_validate(document)
    except ValidationError as error:
        details = _merged(error.errors(include_url=False), document)
        found = [problem(one, document, lines, allowed) for one in details]
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
    """Convert an error of pydantic to an error in the file.

    allowed  returns the allowed keys of the table that contains an unknown key
    """
    where = _in_file(error["loc"], document, error["type"])
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "missing":
        said = "must be given"
        if where[-1] == "kind" and where[0] in PARTS:
            said += f"; allowed: {', '.join(map(repr, PARTS[where[0]]))}"
    elif kind == "extra_forbidden":
        said = f"an unknown key; allowed: {', '.join(allowed(where, document))}"
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        where = (*where, "kind")
        tags = context.get("expected_tags", "")
        found = context.get("tag")
        given = "must be given" if found is None else f"{found!r} is not allowed"
        if not tags and where[0] in PARTS:
            tags = ", ".join(map(repr, PARTS[where[0]]))
        return placed(where, f"{given}; allowed: {tags}" if tags else given, lines)
    else:
        said = error["msg"].removeprefix("Value error, ")
        if kind != "value_error":
            said = f"{_shown(error['input'])} is not allowed: {_in_toml(said)}"
        if kind == "string_type" and isinstance(error["input"], dict):
            said += f"; quote a key with dots: {_dotted(where[-1], error['input'])}"
    return placed(where, said, lines)


def _merged(errors: Sequence[ErrorDetails], document: Any) -> list[ErrorDetails]:
    """Merge the errors of one place: for a union of types pydantic reports one per type.

    1. An error that is not about a type is kept.
    2. A type error is dropped when an error inside the same table is more specific.
    3. Further type errors of one place are joined to the first.
    """
    places = [_in_file(one["loc"], document, one["type"]) for one in errors]
    found: dict[Path, ErrorDetails] = {}
    kept: list[ErrorDetails] = []
    for error, place in zip(errors, places, strict=True):
        is_of_kind = error["type"].endswith("_type") or error["type"] == "literal_error"
        if not is_of_kind:
            kept.append(error)
        elif any(other[: len(place)] == place and other != place for other in places):
            continue
        elif place in found:
            more = error["msg"].removeprefix("Input should be ")
            found[place]["msg"] += f", or {more}"
        else:
            found[place] = error.copy()
            kept.append(found[place])
    return kept


def _in_toml(said: str) -> str:
    """Replace Python's names of types in a message by those of TOML."""
    said = re.sub(r"valid dictionary( or (instance|object) .*)?$", "table", said)
    return said.replace("a valid dictionary", "a table").replace("a valid list", "an array")


def _dotted(name: object, value: dict[str, Any]) -> str:
    """The dotted key that TOML has split into tables (`a.b = 1`), in quotes."""
    names = [str(name)]
    place: Any = value
    while isinstance(place, dict) and place:
        names.append(next(iter(place)))
        place = place[names[-1]]
    return f'"{".".join(names)}"'


def _in_file(location: tuple[int | str, ...], document: Any, kind: str) -> Path:
    """A location of pydantic without its own elements: names of union members and types."""
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
    """The allowed keys of the table that contains the unknown key at `where`."""
    part: type[BaseModel] = Pipeline
    if len(where) > 1 and where[0] in PARTS:
        place = document[where[0]]
        if where[0] != "pipeline":
            place = place[where[1]]
        part = PARTS[where[0]].get(place.get("kind"), Pipeline)
    return [field.alias or name for name, field in part.model_fields.items()]


def placed(where: Path, text: str, lines: dict[Path, int]) -> Problem:
    """A problem with the line of its key, or of the nearest enclosing table."""
    known = where
    while known not in lines:
        known = known[:-1]
    return Problem(lines[known], ".".join(_key(name) for name in where) or "the file", text)


def _key(name: object) -> str:
    text = str(name)
    return text if re.fullmatch(r"[\w.-]+", text) else json.dumps(text, ensure_ascii=False)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= VALUE_LENGTH_MAX else text[: VALUE_LENGTH_MAX - 3] + "..."
