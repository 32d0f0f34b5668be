"""The columns of each source and step of a pipeline, and the mistakes on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from odradek.bounded_parsing import parse_json
from odradek.pipeline.check.columns import (
    UNKNOWN,
    Columns,
    NoSuchColumn,
    Type,
    kind_of,
    shown,
    type_named,
)
from odradek.pipeline.check.findings import Finding, instead
from odradek.pipeline.check.queries import check_expression, check_query
from odradek.pipeline.check.spark_settings import brings_tables, check_prefixes
from odradek.pipeline.spec import steps
from odradek.pipeline.spec.bounded_files import read_bytes, read_text
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.parse_step import DELETED, UNAVAILABLE, Parse
from odradek.pipeline.spec.sources import FileSource, KafkaSource, RateSource

HEADERS: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
KAFKA: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
RATE: Final = {"timestamp": "TIMESTAMP", "value": "BIGINT"}
BOUNDS: Final = {"window_start": "TIMESTAMP", "window_end": "TIMESTAMP"}
AVRO: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",
}
AVRO_TIMES: Final = {
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "date": "DATE",
}
ROWS: Final = "_rows"
"""Table of the rows that an expression of a step is evaluated on."""
TIMES: Final = ("timestamp", "date")
NUMBERS: Final = ("int", "double", "decimal")
TEXTS: Final = ("string", "binary")


def typed(types: Mapping[str, str]) -> dict[str, Type]:
    """Columns of types with their names."""
    return {name: type_named(kind) for name, kind in types.items()}


FurtherStep = (
    steps.Deduplicate
    | steps.Window
    | steps.Correlate
    | steps.TopKeys
    | steps.Join
    | steps.Anomalies
    | steps.Udf
)


@dataclass(slots=True)
class Analysis:
    """What is known of a pipeline without Spark.

    folder      of the pipeline file
    has_others  there may be tables besides the views of the pipeline
    """

    pipeline: PipelineSpec
    folder: FilePath
    has_others: bool
    views: dict[str, Columns] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def run(self) -> None:
        """Follow the columns through sources, steps and sinks."""
        for name, source in self.pipeline.sources.items():
            self.views[name] = self.source(source)
        for name, step in self.pipeline.steps.items():
            self.views[name] = self.step(("steps", name), step)
        for name, sink in self.pipeline.sinks.items():
            self.sink(("sinks", name), sink, self.views.get(sink.source, UNKNOWN))

    def wrong(self, where: Path, text: str, *, is_warning: bool = False) -> None:
        """Add a mistake, or what may be one."""
        self.findings.append(Finding(where, text, is_warning))

    def source(self, source: object) -> Columns:
        """The columns of a source."""
        match source:
            case KafkaSource():
                return Columns(typed(KAFKA | ({"headers": HEADERS} if source.headers else {})))
            case FileSource():
                # Files have the column _metadata, and folders like day=1 are columns.
                is_open = not source.has_texts
                return replace(of_schema(source.row_schema), is_open=is_open)
            case RateSource():
                return Columns(typed(RATE))
        schema = getattr(source, "row_schema", None)
        return replace(of_schema(schema), is_open=True) if isinstance(schema, str) else UNKNOWN

    def step(self, where: Path, step: steps.AnyStep) -> Columns:
        """Check a step; returns its columns."""
        if isinstance(step, steps.Sql):
            return self.sql(where, step)
        rows = self.views.get(step.source, UNKNOWN)
        match step:
            case Parse():
                return self.parse(where, step, rows)
            case steps.Filter():
                return self.filter(where, step, rows)
            case steps.Map():
                types = {
                    name: self.expression((*where, "columns", name), text, {ROWS: rows})
                    for name, text in step.columns.items()
                }
                return Columns(types) if step.only else rows.plus(types)
            case steps.Mask():
                return self.mask(where, step, rows)
            case steps.Route():
                for topic, text in step.rules.items():
                    self.condition((*where, "rules", topic), text, {ROWS: rows})
                return rows.plus(typed({"topic": "STRING"}))
            case steps.Python():
                return UNKNOWN
        return self.further(where, step, rows)

    def further(self, where: Path, step: FurtherStep, rows: Columns) -> Columns:
        """Check a step that names columns by their keys."""
        match step:
            case steps.Deduplicate():
                for number, name in enumerate(step.keys):
                    self.column((*where, "keys", number), rows, name)
                self.column((*where, "time"), rows, step.time, TIMES)
                return rows
            case steps.Window() | steps.Correlate() | steps.TopKeys():
                return self.windows(where, step, rows)
            case steps.Join():
                return self.join(where, step, rows)
            case steps.Anomalies():
                self.column((*where, "time"), rows, step.time, (*TIMES, *NUMBERS))
                self.column((*where, "value"), rows, step.value, NUMBERS)
                for number, name in enumerate(step.group_by):
                    self.column((*where, "group_by", number), rows, name)
                added = {"score": "DOUBLE", "expected": "DOUBLE", "is_anomaly": "BOOLEAN"}
                return rows.plus(typed(added))
            case steps.Udf():
                for number, name in enumerate(step.inputs):
                    self.column((*where, "inputs", number), rows, name)
                return rows.plus(typed({step.column: step.returns}))

    def parse(self, where: Path, step: Parse, rows: Columns) -> Columns:
        """Check a parse step; returns its columns."""
        self.column((*where, "column"), rows, step.column, TEXTS)
        kept = {
            name: self.column((*where, "keep", number), rows, name)
            for number, name in enumerate(step.keep)
        }
        parsed = self.parsed(where, step)
        added = typed(
            {
                **({DELETED: "BOOLEAN"} if step.marks_deletions else {}),
                **({UNAVAILABLE: "ARRAY<STRING>"} if step.unavailable == "keep" else {}),
            }
        )
        return Columns({**kept, **parsed.types, **added}, is_open=parsed.is_open)

    def parsed(self, where: Path, step: Parse) -> Columns:
        """The columns of the schema of a parse step."""
        if step.message is not None and step.descriptor is not None:
            # Imported here: most pipelines need none of its libraries.
            from odradek.pipeline.registry.protobuf import BadDescriptor, avro_schema, message_type

            try:
                content = read_bytes(self.folder / step.descriptor)
                return of_avro(avro_schema(message_type(content, step.message).DESCRIPTOR))
            except OSError as error:
                self.wrong((*where, "descriptor"), f"{step.descriptor}: {error.strerror}")
            except BadDescriptor as error:
                self.wrong((*where, "message"), str(error))
            return UNKNOWN
        if step.row_schema is None:
            return UNKNOWN
        return of_schema(step.row_schema) if step.is_text else of_avro(step.row_schema)

    def filter(self, where: Path, step: steps.Filter, rows: Columns) -> Columns:
        """Check a filter."""
        if step.where is not None:
            self.condition((*where, "where"), step.where, {ROWS: rows})
        for name in step.matches:
            self.column((*where, "matches", name), rows, name)
        for name, value in step.equals.items():
            kind = kind_of(self.column((*where, "equals", name), rows, name))
            allowed = {bool: ("boolean",), str: TEXTS}.get(type(value), NUMBERS)
            if kind is not None and kind not in allowed:
                reason = f"{name} is {kind.upper()} and never {value!r}; where takes any expression"
                self.wrong((*where, "equals", name), reason)
        if step.model is not None:
            self.column((*where, "text_column"), rows, step.text_column)
        return rows

    def mask(self, where: Path, step: steps.Mask, rows: Columns) -> Columns:
        """Check a mask; returns its columns."""
        types: dict[str, Type] = {}
        for number, name in enumerate(step.columns):
            if rows.own(name) is None and not rows.is_open:
                reason = f"there is no column {name!r}; {instead(name, rows.types)}"
                self.wrong((*where, "columns", number), reason)
            elif step.how != "null":
                types[name] = type_named("STRING")
        return rows.plus(types)

    def windows(
        self, where: Path, step: steps.Window | steps.Correlate | steps.TopKeys, rows: Columns
    ) -> Columns:
        """Check a step over windows; returns its columns."""
        self.column((*where, "time"), rows, step.time, TIMES)
        types = typed(BOUNDS)
        scope = {ROWS: rows}
        if isinstance(step, steps.TopKeys):
            kind = self.column((*where, "column"), rows, step.column)
            types |= {**typed({"rank": "INT"}), step.column: kind}
            return Columns(types | typed({"count": "BIGINT", "share": "DOUBLE"}))
        for number, name in enumerate(step.group_by):
            types[name] = self.column((*where, "group_by", number), rows, name)
        if isinstance(step, steps.Correlate):
            self.expression((*where, "x"), step.x, scope)
            self.expression((*where, "y"), step.y, scope)
            return Columns(types | typed({"r": "DOUBLE", "count": "BIGINT"}))
        for name, text in step.aggregates.items():
            types[name] = self.expression((*where, "aggregates", name), text, scope)
        return Columns(types)

    def join(self, where: Path, step: steps.Join, left: Columns) -> Columns:
        """Check a join; returns its columns."""
        right = self.views.get(step.right, UNKNOWN)
        scopes = {"l": left, "r": right}
        self.condition((*where, "on"), step.on, scopes)
        if step.left_time is not None:
            self.column((*where, "left_time"), left, step.left_time, TIMES)
        if step.right_time is not None:
            self.column((*where, "right_time"), right, step.right_time, TIMES)
        return Columns(
            {
                name: self.expression((*where, "columns", name), text, scopes)
                for name, text in step.columns.items()
            }
        )

    def sql(self, where: Path, step: steps.Sql) -> Columns:
        """Check a query; returns its columns."""
        for view, times in step.watermarks.items():
            for name in times:
                place = (*where, "watermarks", view, name)
                self.column(place, self.views.get(view, UNKNOWN), name, TIMES)
        text = step.query
        if step.file is not None:
            try:
                text = read_text(self.folder / step.file)
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
                self.wrong((*where, "file"), f"{step.file}: {reason}")
                return UNKNOWN
        assert text is not None, "a query or a file"
        columns, mistakes = check_query(text, self.views, has_others=self.has_others)
        key = "query" if step.query is not None else "file"
        for mistake, is_warning in mistakes:
            self.wrong((*where, key), mistake, is_warning=is_warning)
        return columns

    def sink(self, where: Path, sink: Any, rows: Columns) -> None:
        """Check the columns that a sink names."""
        for key in ("key", "latest_by", "delete_by", "keep_by"):
            name = getattr(sink, key, None)
            if isinstance(name, str):
                self.column((*where, key), rows, name)
        for key in ("value", "keys", "partition_by", "omit"):
            names = getattr(sink, key, None)
            for number, name in enumerate(names if isinstance(names, list) else ()):
                self.column((*where, key, number), rows, name)
        if sink.kind != "kafka":
            return
        if sink.topic is None and rows.own("topic") is None and not rows.is_open:
            self.wrong(where, "topic must be given: the rows have no column 'topic'")
        if sink.value in (None, "value"):
            self.column((*where, "value"), rows, "value", TEXTS)

    def column(self, where: Path, rows: Columns, name: str, allowed: tuple[str, ...] = ()) -> Type:
        """Look up a column or field that a key names; `allowed` are kinds of types."""
        try:
            kind = rows.named(name)
        except NoSuchColumn as error:
            self.wrong(where, str(error))
            return None
        name_of_type = kind_of(kind)
        if allowed and name_of_type is not None and name_of_type not in allowed:
            names = " or ".join(kind_allowed.upper() for kind_allowed in allowed)
            self.wrong(where, f"{name} is {shown(kind)}; allowed: {names}")
        return kind

    def expression(self, where: Path, text: str, tables: Mapping[str, Columns]) -> Type:
        """Check an expression; returns its type."""
        kind, mistakes = check_expression(text, tables)
        for mistake in mistakes:
            self.wrong(where, mistake)
        return kind

    def condition(self, where: Path, text: str, tables: Mapping[str, Columns]) -> None:
        """Check an expression that must be a truth value."""
        kind = self.expression(where, text, tables)
        if kind_of(kind) not in (None, "boolean"):
            self.wrong(where, f"is {shown(kind)}, and a condition is BOOLEAN")


def analyse(pipeline: PipelineSpec, folder: FilePath) -> Analysis:
    """Follow columns and types through a pipeline.

    folder  of the pipeline file
    cost    some 10 ms, after 200 ms to import the SQL parser
    """
    settings = pipeline.pipeline.spark
    ends = (*pipeline.sources.values(), *pipeline.sinks.values())
    has_packages = any(getattr(end, "packages", None) for end in ends)
    analysis = Analysis(pipeline, folder, has_packages or brings_tables(settings))
    analysis.findings += check_prefixes(settings)
    analysis.run()
    return analysis


def of_schema(text: str) -> Columns:
    """The columns of a schema as in `CREATE TABLE`."""
    try:
        kind = exp.DataType.build(f"STRUCT<{text}>", dialect="spark")
    except SqlglotError:
        return UNKNOWN
    types = {column.name: column.args.get("kind") for column in kind.expressions}
    return Columns(
        {name: of if isinstance(of, exp.DataType) else None for name, of in types.items()}
    )


def of_avro(text: str) -> Columns:
    """The columns of an Avro schema; the types of nested ones are not followed."""
    fields = parse_json(text)["fields"]
    return Columns({field["name"]: _avro_type(field["type"]) for field in fields})


def _avro_type(kind: Any) -> Type:
    if isinstance(kind, list):
        others = [other for other in kind if other != "null"]
        return _avro_type(others[0]) if len(others) == 1 else None
    if isinstance(kind, dict):
        logical = AVRO_TIMES.get(kind.get("logicalType", ""))
        if logical is not None:
            return type_named(logical)
        return _avro_type(kind.get("type")) if "logicalType" not in kind else None
    name = AVRO.get(kind) if isinstance(kind, str) else None
    return None if name is None else type_named(name)
