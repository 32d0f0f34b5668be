"""Shows what Spark makes of a pipeline file: its errors, its plans, and a few rows of each step.

Nothing is written: no sink runs, no checkpoint is touched, no offset is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from odradek.pipeline.check.findings import Finding
from odradek.pipeline.check.spark_settings import check_settings
from odradek.pipeline.jobs.built import Built
from odradek.pipeline.jobs.given import read_given
from odradek.pipeline.jobs.run import build_from, needs
from odradek.pipeline.jobs.sharing import check_stateless
from odradek.pipeline.report.causes import error_line
from odradek.pipeline.report.failures import PartFailed, part, quieten
from odradek.pipeline.sinks.records import records as records_of
from odradek.pipeline.sources.read import read as read_source
from odradek.pipeline.spark.connectors import NoConnector
from odradek.pipeline.spark.gateway import java, java_rows
from odradek.pipeline.spark.session import FEW_ROWS, FEW_ROWS_MASTER, close_session, open_session
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sharing import said_of, shared_queries
from odradek.pipeline.spec.sources import FileSource, KafkaSource, RateSource
from odradek.pipeline.spec.steps import Filter

FAILED: Final = 1
CELL_LENGTH_MAX: Final = 40
OF_STREAMS: Final = (KafkaSource, FileSource, RateSource)
"""Sources whose columns are known without the source."""


@contextmanager
def session_of(
    pipeline: PipelineSpec, *, is_read: bool, jars: Path | None
) -> Iterator[SparkSession]:
    """A small session.

    is_read  sources are read, and so their connectors are needed
    raises   NoConnector; PySparkException
    """
    connectors = [need for need in needs(pipeline) if is_read or need != "kafka"]
    spark = open_session(
        pipeline.pipeline.name,
        needs=connectors,
        master=FEW_ROWS_MASTER,
        jars=jars,
        settings={**FEW_ROWS, **pipeline.pipeline.spark},
    )
    try:
        quieten(spark)
        yield spark
    finally:
        close_session(spark)


def build_empty(spark: SparkSession, pipeline: PipelineSpec, folder: Path, empty: Path) -> Built:
    """The views of a pipeline over sources without rows: streams, unless the mode is batch.

    Of a table of a database the columns are read.

    empty   a folder for the files of empty sources
    raises  PartFailed
    """

    def read(name: str) -> DataFrame:
        source = pipeline.sources[name]
        if isinstance(source, OF_STREAMS):
            return read_given(spark, source, [], pipeline.pipeline, empty / name)
        rows = read_source(spark, source, pipeline.clusters, pipeline.pipeline, folder)
        return rows.where(F.lit(False))

    return build_from(spark, pipeline, folder, read)


def check_plans(
    spark: SparkSession, pipeline: PipelineSpec, folder: Path, findings: list[Finding]
) -> None:
    """Let Spark analyse a pipeline on empty sources, and Java its regular expressions.

    findings  settings that Spark does not have are added
    raises    PartFailed
    """
    findings += check_settings(pipeline.pipeline.spark, known_settings(spark))
    _check_patterns(spark, pipeline)
    with TemporaryDirectory(prefix="odradek-check-") as empty:
        built = build_empty(spark, pipeline, folder, Path(empty))
        jvm = java(spark)
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        for shared in shared_queries(pipeline):
            outputs = {name: built.outputs[name][0] for name in shared.outputs}
            check_stateless(pipeline, shared, built.views[shared.view], outputs)
        for name, (rows, sink) in built.outputs.items():
            where = ("sinks", name) if name in pipeline.sinks else ("steps", name)
            with part(where, pipeline):
                written = records_of(rows, sink) if sink.kind == "kafka" else rows
                if not written.isStreaming:
                    continue
                mode = getattr(sink, "output_mode", "append").capitalize()
                plan = java_rows(written)
                modes = jvm.org.apache.spark.sql.streaming.OutputMode
                checker.checkForStreaming(plan.queryExecution().analyzed(), getattr(modes, mode)())


def known_settings(spark: SparkSession) -> set[str]:
    """All settings of Spark, those for experts included.

    Source: org.apache.spark.internal.config.ConfigEntry, an object of Scala
    """
    entries = getattr(java(spark).org.apache.spark.internal.config, "ConfigEntry$")
    return set(getattr(entries, "MODULE$").knownConfigs().keySet())


def _check_patterns(spark: SparkSession, pipeline: PipelineSpec) -> None:
    """Let Java parse the regular expressions of keys, which Spark does only for the first row.

    raises  PartFailed
    """
    patterns: dict[tuple[str, ...], str] = {}
    for name, source in pipeline.sources.items():
        if isinstance(source, KafkaSource) and source.pattern is not None:
            patterns["sources", name, "pattern"] = source.pattern
    for name, step in pipeline.steps.items():
        if isinstance(step, Filter):
            for column, pattern in step.matches.items():
                patterns["steps", name, "matches", column] = pattern
    for where, pattern in patterns.items():
        with part(where, pipeline):
            java(spark).java.util.regex.Pattern.compile(pattern)


def explain(
    spark: SparkSession, pipeline: PipelineSpec, folder: Path, print_line: Callable[[str], None]
) -> None:
    """Print the columns of each source and step, and Spark's plan of each query.

    raises  PartFailed
    """
    with TemporaryDirectory(prefix="odradek-explain-") as empty:
        built = build_empty(spark, pipeline, folder, Path(empty))
        for name, rows in built.views.items():
            print_line(f"{_kind(pipeline, name)}")
            for line in _columns(rows.schema):
                print_line(f"    {line}")
        jvm = java(spark)
        mode = jvm.org.apache.spark.sql.execution.ExplainMode.fromString("simple")
        queries = shared_queries(pipeline)
        are_shared = {name for query in queries for name in query.outputs}
        for query in queries:
            print_line(said_of(query))
        for name, (rows, sink) in built.outputs.items():
            what = "rows" if name in are_shared else "query"
            print_line(f"{what} {name}: from {sink.source} to {sink.kind}")
            frame = java_rows(rows)
            text: str = frame.queryExecution().explainString(mode)
            for line in text.replace(empty, "").strip().splitlines():
                print_line(f"    {line}")


def preview(
    spark: SparkSession,
    pipeline: PipelineSpec,
    folder: Path,
    print_line: Callable[[str], None],
    *,
    count: int,
    step: str | None = None,
) -> None:
    """Print some rows of each source, and what each step makes of them, as in batch mode.

    count   rows that are read of each source but tables, and printed of each view
    step    print this source or step only
    raises  PartFailed
    """
    names = [step] if step is not None else [*pipeline.steps, *pipeline.sources]
    shown = pipeline.only_for(names).in_mode("batch")

    def read(name: str) -> DataFrame:
        return _few(spark, shown, name, folder, count)

    built = build_from(spark, shown, folder, read)
    for name, rows in built.views.items():
        if step is not None and name != step:
            continue
        print_line(_kind(pipeline, name))
        with part(_place(pipeline, name), pipeline):
            _print(rows, count, print_line)
        rejects = built.outputs.get(f"{name}_rejects")
        if rejects is not None:
            print_line(f"dead letters of {name}")
            with part(("steps", name), pipeline):
                _print(rejects[0], count, print_line)


def _few(
    spark: SparkSession, pipeline: PipelineSpec, name: str, folder: Path, count: int
) -> DataFrame:
    """The first rows of a source, in memory: steps do not read it again; a table is read whole."""
    source = pipeline.sources[name]
    if source.is_static:
        # A join with some of its rows would show nulls that a run does not have.
        return read_source(spark, source, pipeline.clusters, pipeline.pipeline, folder)
    if isinstance(source, RateSource):
        ids = F.col("id")
        return spark.range(count).select(
            F.timestamp_seconds(F.unix_timestamp() + ids).alias("timestamp"), ids.alias("value")
        )
    if isinstance(source, KafkaSource) and source.starting_offsets == "latest":
        source = source.model_copy(update={"starting_offsets": "earliest"})
    rows = read_source(spark, source, pipeline.clusters, pipeline.pipeline, folder).limit(count)
    return spark.createDataFrame(rows.collect(), rows.schema)


def _print(rows: DataFrame, count: int, print_line: Callable[[str], None]) -> None:
    texts = [
        F.coalesce(
            F.try_validate_utf8(F.col(_quoted(field.name)).cast("string")),
            F.base64(_quoted(field.name)),
        ).alias(field.name)
        if isinstance(field.dataType, BinaryType)
        else F.col(_quoted(field.name))
        for field in rows.schema.fields
    ]
    shown: Any = rows.select(*texts)
    for line in shown._show_string(count, CELL_LENGTH_MAX, False).rstrip().splitlines():
        print_line(f"    {line}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _columns(schema: StructType) -> Iterator[str]:
    width = max((len(field.name) for field in schema.fields), default=0)
    for field in schema.fields:
        null = "" if field.nullable else " NOT NULL"
        yield f"{field.name:<{width}}  {field.dataType.simpleString().upper()}{null}"


def _place(pipeline: PipelineSpec, name: str) -> tuple[str, str]:
    return ("sources" if name in pipeline.sources else "steps", name)


def _kind(pipeline: PipelineSpec, name: str) -> str:
    table, _ = _place(pipeline, name)
    part_of = pipeline.sources[name] if table == "sources" else pipeline.steps[name]
    above = getattr(part_of, "source", None)
    text = f"{table.removesuffix('s')} {name}: {part_of.kind}"
    return text if above is None else f"{text} from {above}"


def inspected(
    pipeline: PipelineSpec,
    path: Path,
    work: Callable[[SparkSession], None],
    *,
    is_read: bool,
    jars: Path | None,
    print_error: Callable[[str], None],
) -> int:
    """Do some work in a session; a failure is printed in one line.  Returns the exit code."""
    try:
        with session_of(pipeline, is_read=is_read, jars=jars) as spark:
            try:
                work(spark)
            except (PySparkException, Py4JError) as error:
                print_error(f"{path}: {error_line(error, pipeline)}")
                return FAILED
    except PartFailed as error:
        print_error(error.line_of(path))
        return FAILED
    except NoConnector as error:
        print_error(f"{path}: {error}")
        return FAILED
    return 0
