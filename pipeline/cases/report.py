"""The cases of a pipeline file as a command and as an assertion."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odradek.pipeline.cases.run import CaseResult, Suite, load_suite, run_suite
from odradek.pipeline.jobs.run import needs
from odradek.pipeline.report.causes import error_line
from odradek.pipeline.report.failures import quieten
from odradek.pipeline.spark.connectors import NoConnector
from odradek.pipeline.spark.session import (
    FEW_ROWS,
    FEW_ROWS_MASTER,
    LIST_SETTINGS,
    close_session,
    open_session,
)
from odradek.pipeline.spec.cases import cases_beside
from odradek.pipeline.spec.document import Outside

if TYPE_CHECKING:
    from odradek.pipeline.spec.model import PipelineSpec

FAILED: Final = 1


def assert_cases(
    pipeline_file: Path,
    cases_file: Path | None = None,
    *,
    spark: SparkSession | None = None,
    settings: Sequence[str] = (),
) -> None:
    """Fail with the differences unless all cases of a pipeline file pass; for tests with pytest.

    cases_file  None: `my.test.toml` beside `my.toml`
    spark       a running session; None: one of its own
    settings    `KEY=VALUE` instead of the file's values
    raises      AssertionError; SpecError, OSError for the files; NoConnector
    cost        4 to 6 s for the session, then about a second a case
    """
    cases = cases_beside(pipeline_file) if cases_file is None else cases_file
    suite = load_suite(pipeline_file, cases, Outside(os.environ, settings))
    session = _session(suite.pipelines[0]) if spark is None else spark
    try:
        failed = [
            result for result in run_suite(session, suite, pipeline_file) if not result.has_passed
        ]
    finally:
        if spark is None:
            close_session(session)
    if failed:
        lines = [line for result in failed for line in _lines(suite, result)]
        raise AssertionError("\n".join(["cases have failed", *lines]))


def run_cases(
    pipeline_file: Path,
    cases_files: Iterable[Path],
    settings: Sequence[str],
    print_line: Callable[[str], None],
) -> int:
    """Run files of cases and report each case in a line; returns the exit code, 1 for a failure.

    raises  SpecError, OSError
    """
    outside = Outside(os.environ, settings)
    suites = [load_suite(pipeline_file, file, outside) for file in cases_files]
    try:
        session = _session(suites[0].pipelines[0])
    except NoConnector as error:
        print_line(f"{pipeline_file}: {error}")
        return FAILED
    passed = failed = 0
    try:
        for suite in suites:
            for result in run_suite(session, suite, pipeline_file):
                for line in _lines(suite, result):
                    print_line(line)
                passed += result.has_passed
                failed += not result.has_passed
    except PySparkException as error:
        print_line(f"{pipeline_file}: {error_line(error)}")
        return FAILED
    finally:
        close_session(session)
    print_line(f"{passed} passed, {failed} failed")
    return FAILED if failed else 0


def _lines(suite: Suite, result: CaseResult) -> list[str]:
    word = "passed" if result.has_passed else "FAILED"
    head = f"{word}  {suite.file}: line {result.line}: {result.name} ({result.took_s:.1f} s)"
    return [head, *(f"    {line}" for line in result.lines)]


def _session(pipeline: PipelineSpec) -> SparkSession:
    """raises  NoConnector"""
    theirs = {
        key: value for key, value in pipeline.pipeline.spark.items() if key not in LIST_SETTINGS
    }
    settings: dict[str, object] = {**FEW_ROWS, **theirs}
    connectors = [need for need in needs(pipeline) if need == "avro"]
    spark = open_session(
        f"{pipeline.pipeline.name} cases",
        needs=connectors,
        master=FEW_ROWS_MASTER,
        settings=settings,
    )
    quieten(spark)
    return spark
