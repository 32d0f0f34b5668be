"""Errors of steps: one line with file, line and step, without Java's stack trace."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.report.failures import LOGGERS, PartFailed, quieten
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError
from tests.pipeline.feeding import document, feed
from tests.support.broker_process import BrokerProcess

SCHEMAS = {"rows": "a STRING, n INT, at TIMESTAMP"}
WINDOW = """
[steps.windows]
kind = "window"
from = "rows"
time = "at"
length = "10 seconds"
watermark = "1 second"
aggregates = { n = "count(*)" }
"""


def run_file(spark: SparkSession, text: str, path: Path) -> None:
    """Run a pipeline as the command does."""
    pipeline = parse(text, path)
    built = run.build(spark, pipeline, path.parent)
    if pipeline.pipeline.mode == "batch":
        run.run_batch(built)
    else:
        run.wait(pipeline, run.start_stream(built))


def error_of(spark: SparkSession, folder: Path, text: str) -> str:
    """The error of a file that passes the check, without the path."""
    path = folder / "my.toml"
    path.write_text(text)
    quieten(spark)
    with pytest.raises(PartFailed) as caught:
        run_file(spark, text, path)
    line = caught.value.line_of(path)
    assert "\n" not in line
    assert "\tat " not in line
    return line.removeprefix(f"{path}: ")


def steps(kind: str, rest: str) -> str:
    """A step over the rows, which starts in line 10."""
    return f'[steps.mine]\nkind = "{kind}"\nfrom = "rows"\n{rest}\n'


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            steps("filter", 'where = "b > 0"'),
            "A column, variable, or function parameter with name `b` cannot be resolved. Did you"
            " mean one of the following? [`a`, `n`, `at`].",
        ),
        (steps("filter", 'where = "a >"'), "Syntax error at or near end of input. (line 1, pos 3)"),
        (steps("filter", 'matches = { a = "(" }'), "Unclosed group near index 1"),
        (steps("filter", "equals = { a = 1 }"), "equals: a is STRING and never 1; where takes any"),
        (steps("filter", 'model = "none"'), "Path does not exist: file:"),
        (steps("map", 'columns = { b = "nothing(a)" }'), "Cannot resolve routine `nothing`"),
        (steps("mask", 'columns = ["b"]\nhow = "null"'), "b is not a column; there are: a, n, at"),
        (
            steps("anomalies", 'method = "ewma"\ntime = "at"\nvalue = "a"'),
            "value = 'a' is STRING, not a number",
        ),
        (
            '[steps.mine]\nkind = "sql"\nquery = "SELECT x FROM rows"\n',
            "A column, variable, or function parameter with name `x` cannot be resolved.",
        ),
        (
            '[steps.mine]\nkind = "sql"\nquery = "SELECT * FROM nowhere"\n',
            "The table or view `nowhere` cannot be found.",
        ),
        ('[steps.mine]\nkind = "sql"\nfile = "none.sql"\n', "none.sql: No such file or directory"),
        (
            steps(
                "parse",
                'format = "avro"\ncolumn = "a"\nschema = \'{"type": "record", "name": "x",'
                ' "fields": [{"name": "a", "type": "strng"}]}\'',
            ),
            "Undefined schema: strng",
        ),
    ],
)
def test_unsuitable_step_is_named(
    spark: SparkSession, tmp_path: Path, step: str, message: str
) -> None:
    (tmp_path / "rows").mkdir()
    error = error_of(spark, tmp_path, document(step, "batch", SCHEMAS))
    assert error.startswith("line 11: steps.mine: ")
    assert message in error


def test_error_is_one_line_without_spark_logs(spark: SparkSession) -> None:
    """PySpark's loggers would print Java's stack trace on standard error."""
    quieten(spark)
    for name in LOGGERS:
        assert not PySparkLogger.getLogger(name).isEnabledFor(logging.CRITICAL)


def test_failing_source_and_sink_are_named(spark: SparkSession, tmp_path: Path) -> None:
    error = error_of(spark, tmp_path, document("", "batch", SCHEMAS))
    assert error == f"line 5: sources.rows: Path does not exist: file:{tmp_path}/rows."
    (tmp_path / "rows").mkdir()
    text = document(WINDOW, "available_now", SCHEMAS)
    text = text.replace('from = "rows"\n', 'from = "rows"\noutput_mode = "complete"\n')
    text = text.replace('output_mode = "complete"\ntime', "time")
    error = error_of(spark, tmp_path, text)
    assert error.startswith("line 20: sinks.unused: Invalid streaming output mode: complete.")


def test_row_that_fails_a_stream_is_reported_for_its_sink(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path / "rows", [[{"a": "x", "n": 0}]])
    text = document(steps("map", 'columns = { b = "CAST(a AS INT)" }'), "available_now", SCHEMAS)
    text = text.replace(
        '[sinks.unused]\nkind = "console"\nfrom = "rows"',
        ('[sinks.out]\nkind = "files"\nformat = "json"\npath = "out"\nfrom = "mine"'),
    )
    error = error_of(spark, tmp_path, text)
    assert error.startswith(
        'line 16: sinks.out: The value \'x\' of the type "STRING" cannot be cast to "INT" because'
    )


def test_missing_topic_is_named(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    text = f"""\
[pipeline]
name = "absent"
mode = "batch"
[clusters.main]
bootstrap_servers = "{broker.address}"
[sources.missing]
kind = "kafka"
cluster = "main"
subscribe = ["missing-topic"]
options = {{ "fetchOffset.numRetries" = 1 }}
[sinks.out]
kind = "console"
from = "missing"
"""
    expected = (
        "line 9: sources.missing.subscribe: topic 'missing-topic' does not exist on cluster main"
    )
    assert error_of(spark, tmp_path, text) == expected
    stream = text.replace('mode = "batch"', 'mode = "available_now"\ncheckpoint = "state"')
    assert error_of(spark, tmp_path, stream) == expected.replace("line 9", "line 10")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a STRING", "a STRNG", "line 9: sources.rows.schema: column a: 'STRNG' is not a type"),
        (
            'length = "10 seconds"',
            'length = "10 seconds"\nslide = "1 minute"',
            "line 12: steps.windows: slide 1 minute is longer than length 10 seconds",
        ),
        (
            'kind = "window"',
            'kind = "top_keys"\nk = 3\ncolumn = "count"',
            "line 12: steps.windows: column 'count' would exist twice",
        ),
        (
            'kind = "window"',
            'kind = "join"\nright = "rows"\non = "true"\ncolumns = { a = "l.a" }',
            "line 12: steps.windows: watermark and left_time or right_time belong together",
        ),
    ],
)
def test_check_reports_errors_that_need_no_spark(old: str, new: str, message: str) -> None:
    text = document(WINDOW, "batch", SCHEMAS)
    assert text.count(old) == 1
    if "window" in old and "slide" not in new:
        for line in (
            'length = "10 seconds"\n',
            'aggregates = { n = "count(*)" }\n',
            'time = "at"\n',
        ):
            text = text.replace(line, "" if "join" in new or "agg" in line else line)
    with pytest.raises(SpecError) as caught:
        parse(text.replace(old, new), Path("my.toml"))
    assert [message in str(problem) for problem in caught.value.problems] == [True]
