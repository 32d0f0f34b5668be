"""Loads a pipeline file, or reports all its errors with their lines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from odradek.pipeline.spec.document import Document, Outside, read_document, text_of
from odradek.pipeline.spec.ends import Cluster, Registry
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.model import Head, PipelineSpec, faults
from odradek.pipeline.spec.problems import Problem, SpecError, placed
from odradek.pipeline.spec.sharing import sharing_faults
from odradek.pipeline.spec.sinks import Sink
from odradek.pipeline.spec.sources import Source
from odradek.pipeline.spec.steps import AnyStep

VALUE_LENGTH_MAX: Final = 80
ERRORS_MAX: Final = 1_000
"""Errors of pydantic that are looked at: merging compares each with the others."""
Mode = Literal["stream", "available_now", "batch"]
M = TypeVar("M", bound=BaseModel)


def _by_kind(union: Any) -> dict[str | None, type[BaseModel]]:
    classes = get_args(get_args(union)[0])
    return {get_args(part.model_fields["kind"].annotation)[0]: part for part in classes}


PARTS: Final[dict[str | int, dict[str | None, type[BaseModel]]]] = {
    "pipeline": {None: Head},
    "clusters": {None: Cluster},
    "registries": {None: Registry},
    "sources": _by_kind(Source),
    "steps": _by_kind(AnyStep),
    "sinks": _by_kind(Sink),
}
"""Table of the file -> `kind` -> its model."""


HEADS: Final = {"pipeline": "run, or check", "mirror": "mirror, with --check to check it"}
"""Head table of a file -> the commands that take such a file."""


def load(path: FilePath, mode: Mode | None = None, outside: Outside | None = None) -> PipelineSpec:
    """Read a pipeline file.

    mode     overrides the mode in the file
    outside  None: the variables of this process
    raises   SpecError; OSError when the file cannot be read
    """
    taken = Outside(os.environ) if outside is None else outside
    return pipeline_of(read_document(text_of(path), path, taken), mode)


def parse(text: str, path: FilePath, mode: Mode | None = None) -> PipelineSpec:
    """Parse the text of a pipeline file without variables; `path` is its name in errors.

    raises  SpecError
    """
    return pipeline_of(read_document(text, path, Outside()), mode)


def pipeline_of(document: Document, mode: Mode | None = None) -> PipelineSpec:
    """The pipeline that a document describes.

    mode    overrides the mode in the file
    raises  SpecError
    """

    def moded(pipeline: PipelineSpec) -> PipelineSpec:
        return pipeline if mode is None else pipeline.in_mode(mode)

    def wrong(pipeline: PipelineSpec) -> Iterable[tuple[Path, str]]:
        whole = moded(pipeline)
        return list(faults(whole)) or sharing_faults(whole)

    return moded(checked(document, PipelineSpec, allowed=_allowed, faults=wrong))


def checked(
    document: Document,
    model: type[M],
    *,
    allowed: Callable[[Path, dict[Any, Any]], list[str]],
    faults: Callable[[M], Iterable[tuple[Path, str]]],
) -> M:
    """Make a model of a document.

    allowed  returns the allowed keys of the table that contains an unknown key
    faults   yields the errors between valid parts
    raises   SpecError with all errors, or with one when the file is for another command
    """
    for table, command in HEADS.items():
        if table in document.table and table not in model.model_fields:
            message = f"a file with a table [{table}] is for: odradek pipeline {command}"
            line = document.lines.get((table,), document.lines[()])
            raise SpecError([Problem(*line, "", message)])
    try:
        whole = _validated(document, model)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        details = _merged(errors[:ERRORS_MAX], document.table)
        problems = [_problem(detail, document, allowed) for detail in details]
        raise SpecError(problems, more=max(0, len(errors) - ERRORS_MAX)) from error
    wrong = [
        placed(where, document.hidden.at(where, message), document.lines)
        for where, message in faults(whole)
    ]
    if wrong:
        raise SpecError(wrong)
    return whole


def _validated(document: Document, model: type[M]) -> M:
    """raises  ValidationError"""
    try:
        return model.model_validate(document.table)
    except ValidationError as error:
        places = {
            _in_file(detail["loc"], document.table, detail["type"])
            for detail in error.errors(include_url=False)[:ERRORS_MAX]
            if detail["type"].endswith("_type")
        }
        replaced = [where for where in sorted(places, key=str) if document.replace(where)]
        if not replaced:
            raise
    return model.model_validate(document.table)


def _problem(
    error: ErrorDetails, document: Document, allowed: Callable[[Path, dict[Any, Any]], list[str]]
) -> Problem:
    where, message = _message(error, document.table, allowed)
    return placed(where, document.hidden.at(where, message), document.lines)


def _message(
    error: ErrorDetails,
    document: dict[str, Any],
    allowed: Callable[[Path, dict[Any, Any]], list[str]],
) -> tuple[Path, str]:
    """The place in the file of an error of pydantic, and what is wrong there."""
    where = _in_file(error["loc"], document, error["type"])
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "missing":
        message = "must be given"
        if where[-1] == "kind" and where[0] in PARTS:
            message += f"; allowed: {', '.join(map(repr, PARTS[where[0]]))}"
    elif kind == "extra_forbidden":
        message = f"an unknown key; allowed: {', '.join(allowed(where, document))}"
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        where = (*where, "kind")
        tags = context.get("expected_tags", "")
        tag = context.get("tag")
        given = "must be given" if tag is None else f"{tag!r} is not allowed"
        if not tags and where[0] in PARTS:
            tags = ", ".join(map(repr, PARTS[where[0]]))
        return where, f"{given}; allowed: {tags}" if tags else given
    else:
        message = error["msg"].removeprefix("Value error, ")
        if kind != "value_error":
            message = f"{_shown(error['input'])} is not allowed: {_in_toml(message)}"
        if kind == "string_type" and isinstance(error["input"], dict):
            message += f"; quote a key with dots: {_dotted(where[-1], error['input'])}"
    return where, message


def _merged(errors: Sequence[ErrorDetails], document: Any) -> list[ErrorDetails]:
    """Merge the errors of one place: for a union of types pydantic reports one per type.

    1. An error that is not about a type is kept.
    2. A type error is dropped when an error inside the same table is more specific.
    3. Further type errors of one place are joined to the first.
    """
    places = [_in_file(error["loc"], document, error["type"]) for error in errors]
    first_errors: dict[Path, ErrorDetails] = {}
    kept: list[ErrorDetails] = []
    for error, place in zip(errors, places, strict=True):
        is_of_kind = error["type"].endswith("_type") or error["type"] == "literal_error"
        if not is_of_kind:
            kept.append(error)
        elif any(other[: len(place)] == place and other != place for other in places):
            continue
        elif place in first_errors:
            more = error["msg"].removeprefix("Input should be ")
            first_errors[place]["msg"] += f", or {more}"
        else:
            first_errors[place] = error.copy()
            kept.append(first_errors[place])
    return kept


def _in_toml(message: str) -> str:
    """Replace Python's names of types in a message by those of TOML."""
    message = re.sub(r"valid dictionary( or (instance|object) .*)?$", "table", message)
    return message.replace("a valid dictionary", "a table").replace("a valid list", "an array")


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
    part: type[BaseModel] = PipelineSpec
    if len(where) > 1 and where[0] in PARTS:
        place = document[where[0]]
        if where[0] != "pipeline":
            place = place[where[1]]
        part = PARTS[where[0]].get(place.get("kind"), PipelineSpec)
    return [field.alias or name for name, field in part.model_fields.items()]


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= VALUE_LENGTH_MAX else text[: VALUE_LENGTH_MAX - 3] + "..."
