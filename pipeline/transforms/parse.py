"""Parses bytes or text into columns; rows that fail become dead letters with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.pipeline.spec.parse_step import CORRUPT, DELETED, UNAVAILABLE, Parse
from odradek.pipeline.transforms.avro import read_avro
from odradek.pipeline.transforms.columns import column, quoted
from odradek.pipeline.transforms.exact_json import (
    read_json,
    texts_of,
    with_marks,
    with_value,
    without_marks,
)
from odradek.pipeline.transforms.times import Bound, as_texts, has_times, is_wrong, read, reasons
from odradek.pipeline.transforms.unavailable import placeholders

PARSED: Final = "_parsed"
DECODED: Final = "_decoded"
ENVELOPE: Final = "_envelope"
ROW: Final = "_row"
UNKNOWN: Final = "_unavailable"
"""Names of the columns whose values are placeholders."""
IS_GOOD: Final = "_is_good"
ORIGIN: Final = ("topic", "partition", "offset")
"""Columns of a Kafka source in the headers of a dead letter, besides the timestamp."""
HEADER_PREFIX: Final = "odradek."
"""Prefix of the headers that are added to a dead letter; other headers do not have it."""
_READER: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}

Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the column of a parse step becomes what Spark parses.

    schema   the Avro schema of the payload; None for JSON
    outcome  the column -> a struct of payload (binary), and fault (string): the reason why there is
             no payload
    """

    schema: str | None
    outcome: Callable[[Column], Column]


def parse(
    rows: DataFrame,
    step: Parse,
    bound: Bound | None = None,
    decoding: Decoding | None = None,
    keep: Keep | None = None,
) -> tuple[DataFrame, DataFrame]:
    """The parsed rows (kept columns, then those of the schema), and the dead letters as records.

    A missing field is null, a field that is not in the schema is ignored.  Of two equal keys in
    JSON the last counts.  CSV follows RFC 4180; an empty field is null.

    A row is a dead letter in these cases:
    1. a field has another type, or text is not UTF-8;
    2. a `required` or NOT NULL column is null;
    3. something follows the value;
    4. a time is outside of the years 1 to 9999, or a number without a unit in `epoch`;
    5. in a stream with `rejects`, a time is beyond the bound;
    6. the envelope is not that of a change of a row;
    7. `decoding` has a reason;
    8. a value is a placeholder, unless `unavailable` keeps it; always when it is within a struct.

    A dead letter has the key and value of its record, and as headers those of the record (if the
    rows have the column `headers`, and without `odradek.*`), then `odradek.reason`, and for rows of
    a Kafka source `odradek.topic`, `.partition`, `.offset` and `.timestamp` (ms since 1970).

    keep  called with the rows from which both results are made, returns them or a copy in memory
    """
    data = column(rows, step.column)
    if step.tombstones == "drop":
        rows = rows.where(data.isNotNull())
    reason = F.when(data.isNull(), F.lit("no value"))
    if decoding is not None:
        rows = rows.withColumn(DECODED, decoding.outcome(data))
        data = F.col(DECODED)["payload"]
        fault = F.col(DECODED)["fault"]
        reason = reason.when(fault.isNotNull(), fault)
    schema = step.row_schema if decoding is None else decoding.schema or step.row_schema
    assert schema is not None, "the model has a schema, or the registry"
    decoded = _from_text_column if step.is_text else _from_avro
    parsed = _with_times(decoded(rows, data, schema, reason, step), step)
    parsed = _with_placeholders(parsed, step)
    return _divided(parsed, step, bound, keep)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """Rows with the column PARSED, and the conditions for it."""

    rows: DataFrame
    schema: StructType
    is_good: Column
    reason: Column
    required: list[str]
    is_deletion: Column
    unknown: Column | None = None
    """Names of the columns whose values are placeholders, once they are looked for."""


def _from_avro(rows: DataFrame, data: Column, schema: str, reason: Column, step: Parse) -> _Parsed:
    avro = read_avro(rows, data, schema, PARSED)
    for name, is_text in avro.texts.items():
        reason = reason.when(~is_text, F.lit(f"{name} is not UTF-8"))
    reason = reason.when(~avro.is_readable, F.lit("not Avro of this schema"))
    is_good = data.isNotNull() & avro.is_readable
    return _Parsed(avro.rows, avro.schema, is_good, reason, list(step.required), F.lit(False))


def _from_text_column(
    rows: DataFrame, data: Column, schema_text: str, reason: Column, step: Parse
) -> _Parsed:
    text = data.cast("string")
    envelope = None
    if step.envelope is not None:
        rows, text, envelope = _unwrapped(rows, text)
    schema = StructType.fromDDL(schema_text)
    assert isinstance(schema, StructType), "a schema names columns"
    # Columns that the schema declares NOT NULL are required.
    required = [field.name for field in schema.fields if not field.nullable]
    if step.format == "csv":
        text = F.rtrim(text, F.lit("\r\n"))
    plain = as_texts(schema)
    assert isinstance(plain, StructType), "the schema's columns with other types"
    marked = StructType([*plain.fields, StructField(CORRUPT, StringType())])
    is_whole = F.is_valid_utf8(text) & (_is_object(text) if step.format == "json" else text != "")
    reason = reason.when(text.isNull() | (text == ""), F.lit("no value"))
    if envelope is not None:
        reason = envelope.reason
    if step.format == "json":
        rows = read_json(rows, text, marked, texts_of(schema), PARSED, _READER)
    else:
        rows = rows.withColumn(PARSED, _from_text(text, marked, step))
    return _Parsed(
        rows,
        schema,
        is_whole & F.col(PARSED).isNotNull() & F.col(PARSED)[CORRUPT].isNull(),
        _reason(reason, text, plain, step),
        list(dict.fromkeys([*step.required, *required])),
        F.lit(False) if envelope is None else envelope.is_deletion,
    )


def _with_times(parsed: _Parsed, step: Parse) -> _Parsed:
    """Mark rows with a time that cannot be read as bad."""
    is_text = step.is_text
    is_good, reason = parsed.is_good, parsed.reason
    for path, value, kind in _times(parsed.schema, F.col(PARSED)):
        is_bad = is_wrong(value, kind, step.epoch, path, is_text=is_text)
        default = f"{path} is not {_kind(kind)}"
        for condition, why in reasons(value, kind, step.epoch, path, default, is_text=is_text):
            reason = reason.when(is_bad & condition, F.lit(why))
        is_good = is_good & ~is_bad
    return replace(parsed, is_good=is_good, reason=reason)


def _with_placeholders(parsed: _Parsed, step: Parse) -> _Parsed:
    """Mark rows with a placeholder that is not kept as bad."""
    names = list(placeholders(F.col(PARSED), parsed.schema, step.unavailable_placeholder))
    if not names:
        return parsed
    rows = with_value(parsed.rows, UNKNOWN, F.array_compact(F.array(*names)))
    unknown = F.col(UNKNOWN)
    refused = unknown
    if step.unavailable == "keep":
        structs = [
            F.lit(field.name)
            for field in parsed.schema.fields
            if isinstance(field.dataType, StructType)
        ]
        refused = F.array_intersect(unknown, F.array(*structs).cast("array<string>"))
    is_refused = (F.size(refused) > 0) & ~F.coalesce(parsed.is_deletion, F.lit(False))
    text = F.concat(F.try_element_at(refused, F.lit(1)), F.lit(" is not known: a placeholder"))
    return replace(
        parsed,
        rows=rows,
        unknown=unknown,
        is_good=parsed.is_good & ~is_refused,
        reason=parsed.reason.when(is_refused, text),
    )


def _times(
    schema: StructType, value: Column, above: str = ""
) -> Iterator[tuple[str, Column, DataType]]:
    """Yield path, value and type of each column with times; for a struct, of its fields."""
    for field in schema.fields:
        path, inner = above + field.name, value[field.name]
        if isinstance(field.dataType, StructType):
            yield from _times(field.dataType, inner, f"{path}.")
        elif has_times(field.dataType):
            yield path, inner, field.dataType


@dataclass(frozen=True, slots=True)
class _Envelope:
    reason: Column
    is_deletion: Column


def _unwrapped(rows: DataFrame, text: Column) -> tuple[DataFrame, Column, _Envelope]:
    """Rows with the parsed envelopes, the text of the row in each, and what the envelope says.

    Source: Debezium's change events; converters with schemas put them into `payload`.
    """
    fields = "before STRING, after STRING, op STRING"
    outer = F.from_json(with_marks(text), f"payload STRUCT<{fields}>, {fields}")
    inner = F.struct(*(outer[name].alias(name) for name in ("before", "after", "op")))
    rows = with_value(rows, ENVELOPE, F.coalesce(outer["payload"], inner))
    event = F.col(ENVELOPE)
    is_deletion = event["op"].eqNullSafe(F.lit("d"))
    is_row = event["op"].isin("c", "r", "u")
    row = F.when(is_deletion, event["before"]).when(is_row, event["after"])
    rows, row = with_value(rows, ROW, without_marks(row)), F.col(ROW)
    reason = F.when(text.isNull() | (text == ""), F.lit("no value"))
    reason = reason.when(F.try_parse_json(text).isNull(), F.lit("not JSON"))
    reason = reason.when(event["op"].isNull(), F.lit("no change event of Debezium: no op"))
    reason = reason.when(
        ~is_deletion & ~is_row, F.concat(F.lit("no change of a row: op "), event["op"])
    )
    reason = reason.when(is_deletion & row.isNull(), F.lit("before is missing"))
    reason = reason.when(row.isNull(), F.lit("after is missing"))
    return rows, row, _Envelope(reason, is_deletion)


def _divided(
    parsed: _Parsed, step: Parse, bound: Bound | None, keep: Keep | None
) -> tuple[DataFrame, DataFrame]:
    is_text = step.is_text
    is_good, reason = parsed.is_good, parsed.reason
    for name in parsed.required:
        missing = F.col(PARSED)[name].isNull() & ~parsed.is_deletion
        reason = reason.when(missing, F.lit(f"{name} is missing"))
        is_good = is_good & ~missing
    columns = {
        field.name: read(
            F.col(PARSED)[field.name], field.dataType, step.epoch, field.name, is_text=is_text
        )
        for field in parsed.schema.fields
    }
    if parsed.unknown is not None and (step.unavailable == "keep" or step.marks_deletions):
        for name, value in columns.items():
            columns[name] = F.when(~F.array_contains(parsed.unknown, name), value)
    if bound is not None and step.rejects is not None and bound.is_of_stream(parsed.rows):
        for path in bound.columns:
            is_ahead = bound.is_ahead(_at(path, columns))
            reason = reason.when(is_ahead, F.lit(f"{path} {bound.reason}"))
            is_good = is_good & ~is_ahead
    is_good = F.coalesce(is_good, F.lit(False))
    is_deletion = parsed.is_deletion
    if step.tombstones == "keep":
        is_tombstone = column(parsed.rows, step.column).isNull()
        is_good, is_deletion = is_good | is_tombstone, is_deletion | is_tombstone
    if step.marks_deletions:
        columns[DELETED] = F.coalesce(is_deletion, F.lit(False))
    if step.unavailable == "keep":
        empty = F.array().cast("array<string>")
        columns[UNAVAILABLE] = empty if parsed.unknown is None else parsed.unknown
    reason = reason.otherwise(F.lit("does not fit the schema"))
    rows = parsed.rows
    if keep is not None:
        rows, is_good = keep(rows.withColumn(IS_GOOD, is_good)), F.col(IS_GOOD)
    good = rows.where(is_good)
    good = good.select(
        *(column(good, name) for name in step.keep),
        *(value.alias(name) for name, value in columns.items()),
    )
    return good, _dead_letters(rows.where(~is_good), reason, step)


def _at(path: str, columns: Mapping[str, Column]) -> Column:
    """The column of a path: a column with this whole name, or else a field."""
    by_name = {name.lower(): value for name, value in columns.items()}
    if path.lower() in by_name:
        return by_name[path.lower()]
    top, *fields = path.split(".")
    return reduce(lambda value, field: value[field], fields, by_name[top.lower()])


def _from_text(text: Column, schema: StructType, step: Parse) -> Column:
    if step.format == "json":
        return F.from_json(text, schema, _READER)
    ddl = ", ".join(
        f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields
    )
    return F.from_csv(text, ddl, _READER | {"sep": step.delimiter, "escape": '"'})


def _is_object(text: Column) -> Column:
    """Whether the text is one JSON object; Spark's parser ignores what follows a value."""
    is_one = F.ltrim(text, F.lit(" \t\r\n")).startswith("{")
    is_one = is_one & F.rtrim(text, F.lit(" \t\r\n")).endswith("}")
    alone = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "ARRAY<STRING>")
    is_suspect = text.rlike(r"\}\s*,?\s*\{")
    is_alone = F.coalesce(F.size(alone) == 1, F.lit(False))
    return is_one & F.when(is_suspect, is_alone).otherwise(F.lit(True))


def _reason(reason: Column, text: Column, schema: StructType, step: Parse) -> Column:
    """The reason why a row is bad; evaluated for bad rows only."""
    reason = reason.when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
    if step.format == "json":
        return _reason_json(reason, text, schema, step)
    texts = [StructField(field.name, StringType()) for field in schema.fields]
    corrupt = StructField(CORRUPT, StringType())
    is_torn = _from_text(text, StructType([*texts, corrupt]), step)[CORRUPT].isNotNull()
    reason = reason.when(is_torn, F.lit(f"not {len(texts)} columns"))
    for number, field in enumerate(schema.fields):
        alone = StructType([*texts[:number], field, *texts[number + 1 :], corrupt])
        is_bad = _from_text(text, alone, step)[CORRUPT].isNotNull()
        reason = reason.when(is_bad, F.lit(f"{field.name} is not {_kind(field.dataType)}"))
    return reason


def _reason_json(reason: Column, text: Column, schema: StructType, step: Parse) -> Column:
    reason = reason.when(F.try_parse_json(text).isNull(), F.lit("not JSON"))
    reason = reason.when(~_is_object(text), F.lit("not one JSON object"))
    for path, nested in _leaves(schema, lambda field: StructType([field])):
        marked = StructType([*nested.fields, StructField(CORRUPT, StringType())])
        is_bad = _from_text(text, marked, step)[CORRUPT].isNotNull()
        reason = reason.when(is_bad, F.lit(path))
    return reason


def _leaves(
    schema: StructType, around: Callable[[StructField], StructType], above: str = ""
) -> Iterator[tuple[str, StructType]]:
    """Yield a text for each field, and a schema of that field; structs before their fields."""
    for field in schema.fields:
        text = f"{above}{field.name} is not {_kind(field.dataType)}"
        if not isinstance(field.dataType, StructType):
            yield text, around(field)
            continue

        def inside(inner: StructField, name: str = field.name) -> StructType:
            return around(StructField(name, StructType([inner])))

        # Any object matches a struct whose fields are all missing.
        yield text, inside(StructField(CORRUPT, StringType()))
        yield from _leaves(field.dataType, inside, f"{above}{field.name}.")


def _kind(data_type: DataType) -> str:
    if isinstance(data_type, StructType):
        return "an object"
    if isinstance(data_type, ArrayType):
        return f"ARRAY of {_kind(data_type.elementType)}"
    if isinstance(data_type, MapType):
        return f"MAP to {_kind(data_type.valueType)}"
    return data_type.simpleString().upper()


def _dead_letters(bad: DataFrame, reason: Column, step: Parse) -> DataFrame:
    key = F.col("key") if "key" in bad.columns else F.lit(None)
    return bad.select(
        key.cast("binary").alias("key"),
        column(bad, step.column).cast("binary").alias("value"),
        _headers(bad, reason).alias("headers"),
    )


def _headers(bad: DataFrame, reason: Column) -> Column:
    """The headers of a dead letter, with the timestamp, which Spark's sink cannot write."""
    added = [_header("reason", reason)]
    added += [_header(name, F.col(name).cast("string")) for name in ORIGIN if name in bad.columns]
    # Columns with these names may have other types when the source is not Kafka.
    kinds = {field.name: field.dataType for field in bad.schema.fields}
    if isinstance(kinds.get("timestamp"), TimestampType):
        at_ms = F.unix_millis(F.col("timestamp"))
        added.append(_header("timestamp", at_ms.cast("string")))
    ours = F.array(*added)
    if not _are_headers(kinds.get("headers")):
        return ours
    theirs = F.filter(F.col("headers"), lambda header: ~header["key"].startswith(HEADER_PREFIX))
    # The column is null for a record without headers.
    return F.coalesce(F.concat(theirs, ours), ours)


def _are_headers(kind: DataType | None) -> bool:
    """Whether a column has the type of a Kafka source's headers."""
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(HEADER_PREFIX + name).alias("key"), value.cast("binary").alias("value"))
