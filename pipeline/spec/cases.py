"""The file with the test cases of a pipeline.

[[case]]
name = "amounts are summed by shop"
given.orders = [{ value = { shop = "a", amount = 2 } }, { value = { shop = "a", amount = 3 } }]
expected.per_shop = [{ shop = "a", total = 5 }]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

from pydantic import Field

from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.pipeline.spec.document import Document, Outside, read_document, text_of
from odradek.pipeline.spec.field_types import Names, Options, Part, Text, text_of_option
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.load import checked
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.problems import SpecError, placed
from odradek.pipeline.spec.written_float import WrittenFloat

Row = dict[str, Any]
Rows = list[Row]
RowsFile = Annotated[str, Field(pattern=r".\.(json|jsonl)$")]
"""A file with a JSON object per line, relative to the file of the cases."""


def has_batches(rows: Rows | list[Rows] | str) -> bool:
    """Whether rows are an array of arrays."""
    return isinstance(rows, list) and any(isinstance(row, list) for row in rows)


class Case(Part):
    """What comes out of a pipeline for given rows.

    given     source -> its rows; with an array of arrays each inner one is a batch of a stream.
              Sources that are left out have no rows
    expected  source, step, sink or `STEP_rejects` -> its rows; a column that a row leaves out is
              null
    """

    name: Text
    given: dict[str, Rows | list[Rows] | RowsFile]
    expected: Annotated[dict[str, Rows | RowsFile], Field(min_length=1)]
    columns: Names = []
    """The columns that are compared, where there are others; none: all."""
    ordered: bool = False
    """Whether the order of the rows counts."""
    settings: Options = Field(default={}, alias="set")
    """Values instead of the pipeline file's, as with `--set`."""

    @property
    def is_stream(self) -> bool:
        """Whether rows come in several batches."""
        return any(has_batches(rows) for rows in self.given.values())

    def set_arguments(self) -> list[str]:
        """`KEY=VALUE` for each value of `set`."""
        return [f"{key}={text_of_option(value)}" for key, value in self.settings.items()]


class CaseFile(Part):
    """The file."""

    case: Annotated[list[Case], Field(min_length=1)]

    @property
    def cases(self) -> list[Case]:
        """In the order of the file."""
        return self.case


CASES_SUFFIX: Final = ".test.toml"


def cases_beside(pipeline_file: FilePath) -> FilePath:
    """The file of the cases of a pipeline file: `my.test.toml` for `my.toml`."""
    return pipeline_file.with_suffix(CASES_SUFFIX)


def load_cases(path: FilePath) -> tuple[CaseFile, Document]:
    """Read a file of cases; files with rows are not read yet.

    raises  SpecError; OSError
    """
    document = read_document(text_of(path), path, Outside())
    return checked(document, CaseFile, allowed=_allowed, faults=_faults), document


def check_names(number: int, case: Case, pipeline: PipelineSpec, document: Document) -> None:
    """Check what a case names.

    number  of the case in its file, from 0
    raises  SpecError
    """
    outputs = [*pipeline.sources, *pipeline.steps, *pipeline.sinks, *pipeline.dead_letter_steps()]
    problems = []
    for table, names, existing in (
        ("given", case.given, list(pipeline.sources)),
        ("expected", case.expected, outputs),
    ):
        for name in names:
            if name not in existing:
                where = ("case", number, table, name)
                problem = f"the pipeline has no {name!r}; there are: {', '.join(existing)}"
                problems.append(placed(where, problem, document.lines))
    for name, rows in case.given.items():
        source = pipeline.sources.get(name)
        if source is not None and source.is_static and has_batches(rows):
            where = ("case", number, "given", name)
            problems.append(placed(where, "a table has no batches", document.lines))
    if problems:
        raise SpecError(problems)


def batches_of(rows: Rows | list[Rows] | str, folder: FilePath) -> list[Rows]:
    """The batches of given or expected rows: one for rows without batches.

    folder  of the file of the cases
    raises  ValueError; OSError
    """
    if isinstance(rows, str):
        return [list(_of_file(folder / rows))]
    if has_batches(rows):
        return [row if isinstance(row, list) else [row] for row in rows]
    return [[row for row in rows if isinstance(row, dict)]]


def _of_file(path: FilePath) -> Iterator[Row]:
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line, float_type=WrittenFloat)
        except UnreadableText as error:
            raise ValueError(f"{path}: line {number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}: line {number}: not a JSON object")
        yield row


def _faults(file: CaseFile) -> Iterator[tuple[Path, str]]:
    seen: set[str] = set()
    for number, case in enumerate(file.cases):
        if case.name in seen:
            yield ("case", number, "name"), f"another case is called {case.name!r}"
        seen.add(case.name)
        for key in case.settings:
            if re.fullmatch(r"[^=]+", key) is None:
                yield ("case", number, "set"), f"{key!r} is not a key with dots"


def _allowed(where: Path, document: dict[Any, Any]) -> list[str]:
    model = Case if len(where) > 1 else CaseFile
    return [field.alias or name for name, field in model.model_fields.items()]
