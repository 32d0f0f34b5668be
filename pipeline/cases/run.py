"""Runs the cases of a pipeline file in one Spark session."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import ArrayType, BinaryType, DoubleType, FloatType, MapType, StructType

from odradek.bounded_parsing import parse_json
from odradek.pipeline.cases.compare import differences
from odradek.pipeline.jobs.built import Built
from odradek.pipeline.jobs.given import GivenRowsError, read_given
from odradek.pipeline.jobs.run import build_from
from odradek.pipeline.report.causes import error_line
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.sinks.records import records as records_of
from odradek.pipeline.sinks.records import value_columns
from odradek.pipeline.spec.bounded_files import read_bytes
from odradek.pipeline.spec.cases import Case, CaseFile, Row, batches_of, check_names, load_cases
from odradek.pipeline.spec.document import Document, Outside, read_document, text_of
from odradek.pipeline.spec.load import Mode, pipeline_of
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.sinks import KafkaSink
from odradek.pipeline.transforms.columns import column

TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of a pipeline file, checked.

    pipelines  of each case, in order
    """

    file: Path
    cases: CaseFile
    pipelines: list[PipelineSpec]
    document: Document


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What a case has shown.

    lines  what differs or has failed; none when it has passed
    """

    name: str
    line: int
    took_s: float
    lines: list[str] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        """Whether all rows are those expected."""
        return not self.lines


def load_suite(pipeline_file: Path, cases_file: Path, outside: Outside) -> Suite:
    """Read and check both files.

    raises  SpecError; OSError
    """
    cases, document = load_cases(cases_file)
    text = text_of(pipeline_file)
    pipelines = []
    for number, case in enumerate(cases.cases):
        settings = [*case.set_arguments(), *outside.settings]
        read = read_document(text, pipeline_file, Outside(outside.environment, settings))
        pipelines.append(pipeline_of(read))
        check_names(number, case, pipelines[-1], document)
    return Suite(cases_file, cases, pipelines, document)


def run_suite(spark: SparkSession, suite: Suite, pipeline_file: Path) -> Iterator[CaseResult]:
    """Run the cases one after the other."""
    for number, (case, pipeline) in enumerate(zip(suite.cases.cases, suite.pipelines, strict=True)):
        line = suite.document.lines[("case", number)].number
        began_s = time.monotonic()
        with TemporaryDirectory(prefix="odradek-case-") as folder:
            try:
                lines = list(_run(spark, case, pipeline, suite, pipeline_file, Path(folder)))
            except (PartFailed, GivenRowsError, ValueError, OSError, SpecError) as error:
                lines = [str(error)]
            except PySparkException as error:
                lines = [error_line(error, pipeline)]
            finally:
                _forget(spark, pipeline)
        yield CaseResult(case.name, line, time.monotonic() - began_s, lines)


def _run(
    spark: SparkSession,
    case: Case,
    pipeline: PipelineSpec,
    suite: Suite,
    pipeline_file: Path,
    folder: Path,
) -> Iterator[str]:
    """Lines that say how the rows differ."""
    mode: Mode = "available_now" if case.is_stream else "batch"
    tested = pipeline.only_for(case.expected).in_mode(mode)
    beside = suite.file.resolve().parent

    def read(name: str) -> DataFrame:
        batches = batches_of(case.given.get(name, []), beside)
        source = tested.sources[name]
        return read_given(spark, source, batches, tested.pipeline, folder / "given" / name)

    tested = _with_json(spark, tested, pipeline_file.resolve().parent)
    built = build_from(spark, tested, pipeline_file.resolve().parent, read)
    for name, rows in case.expected.items():
        expected = [row for batch in batches_of(rows, beside) for row in batch]
        actual = _rows(built, tested, name, folder)
        if case.columns:
            actual = [{key: row.get(key) for key in case.columns} for row in actual]
        for line in differences(actual, expected, ordered=case.ordered):
            yield f"{name}: {line}"


def _rows(built: Built, pipeline: PipelineSpec, name: str, folder: Path) -> list[Row]:
    """The rows of a source, step or sink, or the dead letters of a step."""
    mode = "append"
    rows, sink = built.outputs.get(name, (None, None))
    value = None
    if rows is None:
        rows = built.views[name]
    elif isinstance(sink, KafkaSink):
        if sink.value not in (None, "value"):
            value = rows.select(*(column(rows, name) for name in value_columns(rows, sink))).schema
        rows, mode = records_of(rows, sink), sink.output_mode
    else:
        mode = getattr(sink, "output_mode", mode)
    if rows.isStreaming:
        rows = _streamed(rows, name, mode, folder)
    shown = F.to_json(F.struct("*"), {"ignoreNullFields": "false", "timestampFormat": TIME_FORMAT})
    is_record = isinstance(sink, KafkaSink)
    texts = [row[0] for row in rows.select(shown).collect()] if rows.columns else []
    return [_decoded(_loads(text), rows.schema, value, is_record=is_record) for text in texts]


def _streamed(rows: DataFrame, name: str, mode: str, folder: Path) -> DataFrame:
    """Run a stream over its batches; the rows that it has put out."""
    table = f"odradek_case_{name}"
    query = (
        rows.writeStream.format("memory")
        .queryName(table)
        .outputMode(mode)
        .option("checkpointLocation", str(folder / "state" / name))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return rows.sparkSession.table(table)


def _loads(text: str) -> Any:
    """What JSON says, with numbers as int and Decimal."""
    return parse_json(text, is_decimal=True)


def _decoded(row: Row, schema: StructType, value: StructType | None, *, is_record: bool) -> Row:
    """A row with text instead of bytes; the value of a record is JSON where it can be.

    value  the columns of a record's value; None: they are not known
    """
    decoded = {field.name: _text(row[field.name], field.dataType) for field in schema.fields}
    if is_record and isinstance(decoded.get("value"), str):
        with suppress(ValueError):
            decoded["value"] = _loads(decoded["value"])
            if value is not None and isinstance(decoded["value"], dict):
                kinds = {field.name: field.dataType for field in value.fields}
                decoded["value"] = {
                    name: _floats(element, kinds.get(name))
                    for name, element in decoded["value"].items()
                }
    if isinstance(decoded.get("headers"), list):
        decoded["headers"] = {header["key"]: header["value"] for header in decoded["headers"]}
    return decoded


def _text(value: Any, kind: object) -> Any:
    """Bytes, which JSON has in base64, as the text that they are; others stay in base64."""
    if value is None:
        return None
    if isinstance(kind, BinaryType):
        try:
            return base64.b64decode(value).decode()
        except UnicodeDecodeError:
            return value
    if isinstance(kind, ArrayType):
        return [_text(element, kind.elementType) for element in value]
    if isinstance(kind, StructType):
        return {field.name: _text(value[field.name], field.dataType) for field in kind.fields}
    return _floats(value, kind)


def _floats(value: Any, kind: object) -> Any:
    """A value of JSON with a float for each DOUBLE and FLOAT."""
    match kind:
        case DoubleType() | FloatType() if isinstance(value, int | Decimal):
            return float(value)
        case ArrayType() if isinstance(value, list):
            return [_floats(element, kind.elementType) for element in value]
        case MapType() if isinstance(value, dict):
            return {key: _floats(element, kind.valueType) for key, element in value.items()}
        case StructType() if isinstance(value, dict):
            kinds = {field.name: field.dataType for field in kind.fields}
            return {name: _floats(element, kinds.get(name)) for name, element in value.items()}
        case _:
            return value


def _forget(spark: SparkSession, pipeline: PipelineSpec) -> None:
    """Remove the views, so that a case does not see those of another one."""
    names: Mapping[str, object] = {**pipeline.sources, **pipeline.steps}
    for name in names:
        spark.catalog.dropTempView(name)
    for name in (*names, *pipeline.sinks, *pipeline.dead_letter_steps()):
        spark.catalog.dropTempView(f"odradek_case_{name}")


def _with_json(spark: SparkSession, pipeline: PipelineSpec, folder: Path) -> PipelineSpec:
    """A pipeline with parse steps that read JSON where they read a registry's records, or Protobuf.

    folder  of the pipeline file
    raises  GivenRowsError for a step whose schema is in a registry only
    """
    steps = {
        name: _step_in_json(spark, name, step, folder) if isinstance(step, Parse) else step
        for name, step in pipeline.steps.items()
    }
    return pipeline.model_copy(update={"steps": steps})


def _step_in_json(spark: SparkSession, name: str, step: Parse, folder: Path) -> Parse:
    if step.registry is None and step.format != "protobuf":
        return step
    update: dict[str, Any] = {"registry": None}
    if not step.is_text:
        update |= {
            "format": "json",
            "row_schema": _ddl_of(spark, _avro_schema_of(name, step, folder)),
        }
    return step.model_copy(update=update)


def _avro_schema_of(name: str, step: Parse, folder: Path) -> str:
    """The Avro schema of a step."""
    if step.descriptor is not None and step.message is not None:
        # Imported here: most pipelines need none of its libraries.
        from odradek.pipeline.registry.protobuf import BadDescriptor, avro_schema, message_type

        try:
            content = read_bytes(folder / step.descriptor)
            return avro_schema(message_type(content, step.message).DESCRIPTOR)
        except BadDescriptor as error:
            raise GivenRowsError(f"steps.{name}: {step.descriptor}: {error}") from error
    if step.row_schema is None:
        raise GivenRowsError(f"steps.{name}: a test asks no registry: schema must be given")
    return step.row_schema


def _ddl_of(spark: SparkSession, schema: str) -> str:
    """The columns as in CREATE TABLE."""
    decoded = spark.range(0).select(from_avro(F.lit(None).cast("binary"), schema).alias("row"))
    columns = decoded.schema["row"].dataType
    assert isinstance(columns, StructType), "the Avro schema is a record's"
    return columns.toDDL()
