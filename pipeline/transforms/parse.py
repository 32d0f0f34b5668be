"""Bytes or text to columns, and what does not parse to dead letters that say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from pipeline.spec.steps import CORRUPT, Parse
from pipeline.transforms.avro import read_avro
from pipeline.transforms.columns import column, quoted

PARSED: Final = "_parsed"
ORIGIN: Final = ("topic", "partition", "offset")
"""Columns of a Kafka source that a dead letter tells in its headers."""


def parse(rows: DataFrame, step: Parse) -> tuple[DataFrame, DataFrame]:
    """The rows that parse: the kept columns, then those of the schema.  And the others as records.

    A field that is missing is null; one of another type makes a dead letter, as does a null in a
    `required` or NOT NULL column, text that is not UTF-8, and anything after the value.  Fields
    that the schema does not have are left out.  Of a key that stands twice in JSON the last counts.
    CSV is RFC 4180's; an empty field is null.

    Dead letters: key, value (as it came), headers `reason` and, from a Kafka source, `topic`,
    `partition` and `offset`.  One row a row that does not parse.
    """
    data = column(rows, step.column)
    if step.format == "avro":
        parsed = read_avro(rows, data, step.row_schema, PARSED)
        reason = F.when(data.isNull(), F.lit("no value"))
        for name, is_text in parsed.texts.items():
            reason = reason.when(~is_text, F.lit(f"{name} is not UTF-8"))
        reason = reason.when(~parsed.is_readable, F.lit("not Avro of this schema"))
        is_good = data.isNotNull() & parsed.is_readable
        return _divided(parsed.rows, is_good, parsed.names, list(step.required), reason, step)
    text = data.cast("string")
    schema = StructType.fromDDL(step.row_schema)
    assert isinstance(schema, StructType), "a schema names columns"
    # A field may not stay away that the schema itself wants.
    wanted = [one.name for one in schema.fields if not one.nullable]
    required = list(dict.fromkeys([*step.required, *wanted]))
    if step.format == "csv":
        text = F.rtrim(text, F.lit("\r\n"))
    marked = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    parsed_rows = rows.withColumn(PARSED, _from_text(text, marked, step))
    is_whole = F.is_valid_utf8(text) & (_is_object(text) if step.format == "json" else text != "")
    is_good = is_whole & F.col(PARSED).isNotNull() & F.col(PARSED)[CORRUPT].isNull()
    return _divided(parsed_rows, is_good, schema.names, required, _reason(text, schema, step), step)


def _divided(
    parsed: DataFrame,
    is_good: Column,
    names: list[str],
    required: list[str],
    reason: Column,
    step: Parse,
) -> tuple[DataFrame, DataFrame]:
    for name in required:
        missing = F.col(PARSED)[name].isNull()
        reason = reason.when(missing, F.lit(f"{name} is missing"))
        is_good = is_good & ~missing
    is_good = F.coalesce(is_good, F.lit(False))
    reason = reason.otherwise(F.lit("does not fit the schema"))
    columns = [F.col(PARSED)[name].alias(name) for name in names]
    good = parsed.where(is_good)
    good = good.select(*(column(good, name) for name in step.keep), *columns)
    return good, _dead_letters(parsed.where(~is_good), reason, step)


def _from_text(text: Column, schema: StructType, step: Parse) -> Column:
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if step.format == "json":
        return F.from_json(text, schema, options)
    ddl = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in schema.fields)
    return F.from_csv(text, ddl, options | {"sep": step.delimiter, "escape": '"'})


def _is_object(text: Column) -> Column:
    """Whether it is one JSON object; what follows a value is overlooked by Spark's parser."""
    is_one = F.ltrim(text, F.lit(" \t\r\n")).startswith("{")
    is_one = is_one & F.rtrim(text, F.lit(" \t\r\n")).endswith("}")
    alone = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "ARRAY<STRING>")
    is_suspect = text.rlike(r"\}\s*,?\s*\{")
    is_alone = F.coalesce(F.size(alone) == 1, F.lit(False))
    return is_one & F.when(is_suspect, is_alone).otherwise(F.lit(True))


def _reason(text: Column, schema: StructType, step: Parse) -> Column:
    """Why a row is bad; evaluated for bad rows only."""
    reason = F.when(text.isNull() | (text == ""), F.lit("no value"))
    reason = reason.when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
    if step.format == "json":
        return _reason_json(reason, text, schema, step)
    texts = [StructField(one.name, StringType()) for one in schema.fields]
    corrupt = StructField(CORRUPT, StringType())
    is_torn = _from_text(text, StructType([*texts, corrupt]), step)[CORRUPT].isNotNull()
    reason = reason.when(is_torn, F.lit(f"not {len(texts)} columns"))
    for number, field in enumerate(schema.fields):
        alone = StructType([*texts[:number], field, *texts[number + 1 :], corrupt])
        is_bad = _from_text(text, alone, step)[CORRUPT].isNotNull()
        reason = reason.when(is_bad, F.lit(f"{field.name} is no {_kind(field.dataType)}"))
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
    """What is said of each field, and a schema of it alone; structures before their fields."""
    for field in schema.fields:
        said = f"{above}{field.name} is no {_kind(field.dataType)}"
        if not isinstance(field.dataType, StructType):
            yield said, around(field)
            continue

        def inside(one: StructField, name: str = field.name) -> StructType:
            return around(StructField(name, StructType([one])))

        # Any object fits a structure whose field it lacks.
        yield said, inside(StructField(CORRUPT, StringType()))
        yield from _leaves(field.dataType, inside, f"{above}{field.name}.")


def _kind(data_type: DataType) -> str:
    if isinstance(data_type, StructType):
        return "object"
    if isinstance(data_type, ArrayType):
        return f"ARRAY of {_kind(data_type.elementType)}"
    if isinstance(data_type, MapType):
        return f"MAP to {_kind(data_type.valueType)}"
    return data_type.simpleString().upper()


def _dead_letters(bad: DataFrame, reason: Column, step: Parse) -> DataFrame:
    headers = [_header("reason", reason)]
    headers += [_header(name, F.col(name).cast("string")) for name in ORIGIN if name in bad.columns]
    key = F.col("key") if "key" in bad.columns else F.lit(None)
    return bad.select(
        key.cast("binary").alias("key"),
        column(bad, step.column).cast("binary").alias("value"),
        F.array(*headers).alias("headers"),
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
