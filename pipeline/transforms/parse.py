"""Bytes or text to columns, and what does not parse to dead letters that say why."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StringType, StructField, StructType

from pipeline.spec.steps import Parse

CORRUPT: Final = "_corrupt"
PARSED: Final = "_parsed"
ORIGIN: Final = ("topic", "partition", "offset")
"""Columns of a Kafka source that a dead letter tells in its headers."""


def parse(rows: DataFrame, step: Parse) -> tuple[DataFrame, DataFrame]:
    """The rows that parse: the kept columns, then those of the schema.  And the others as records.

    A field that is missing is null; one of another type makes a dead letter, as does a null in a
    `required` column.  Fields that the schema does not have are left out.

    Dead letters: key, value (as it came), headers `reason` and, from a Kafka source, `topic`,
    `partition` and `offset`.
    """
    text = F.col(step.column)
    if step.format == "avro":
        return _parse_avro(rows, step, text)
    text = text.cast("string")
    schema = StructType.fromDDL(step.row_schema)
    assert isinstance(schema, StructType), "a schema names columns"
    marked = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    parsed = rows.withColumn(PARSED, _from_text(text, marked, step))
    is_bad = F.col(PARSED).isNull() | F.col(PARSED)[CORRUPT].isNotNull() | text.isNull()
    missing = _missing(step)
    is_good = ~F.coalesce(is_bad, F.lit(True)) & ~missing
    good = parsed.where(is_good).select(
        *step.keep, *(F.col(PARSED)[name].alias(name) for name in schema.names)
    )
    bad = parsed.where(~is_good)
    return good, _dead_letters(bad, _reason(text, schema, step), step)


def _from_text(text: Column, schema: StructType, step: Parse) -> Column:
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if step.format == "json":
        return F.from_json(text, schema, options)
    ddl = ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in schema.fields)
    return F.from_csv(text, ddl, options | {"sep": step.delimiter})


def _missing(step: Parse) -> Column:
    missing = F.lit(False)
    for name in step.required:
        missing = missing | F.col(PARSED)[name].isNull()
    return missing


def _reason(text: Column, schema: StructType, step: Parse) -> Column:
    """Why a row is bad; evaluated for bad rows only."""
    reason = F.when(text.isNull(), F.lit("no value"))
    if step.format == "json":
        reason = reason.when(F.try_parse_json(text).isNull(), F.lit("not JSON"))
        for field in schema.fields:
            alone = StructType([field, StructField(CORRUPT, StringType())])
            is_bad = _from_text(text, alone, step)[CORRUPT].isNotNull()
            reason = reason.when(is_bad, F.lit(_unfit(field)))
    else:
        columns = len(schema.fields)
        count = F.size(F.split(text, "\\" + step.delimiter))
        reason = reason.when(
            count != columns, F.concat(F.lit(f"not {columns} columns but "), count)
        )
    for name in step.required:
        reason = reason.when(F.col(PARSED)[name].isNull(), F.lit(f"{name} is missing"))
    return reason.otherwise(F.lit(f"does not fit the schema {step.row_schema}"))


def _unfit(field: StructField) -> str:
    return f"{field.name} is no {field.dataType.simpleString().upper()}"


def _parse_avro(rows: DataFrame, step: Parse, data: Column) -> tuple[DataFrame, DataFrame]:
    options = {"mode": "PERMISSIVE"}
    parsed = rows.withColumn(PARSED, from_avro(data, step.row_schema, options))
    # A record that cannot be read comes out as a structure of nulls.
    fields = parsed.schema[PARSED].dataType
    assert isinstance(fields, StructType), "the Avro schema is a record's"
    is_empty = F.lit(True)
    for name in fields.names:
        is_empty = is_empty & F.col(PARSED)[name].isNull()
    is_bad = data.isNull() | F.col(PARSED).isNull() | is_empty
    is_good = ~F.coalesce(is_bad, F.lit(True)) & ~_missing(step)
    good = parsed.where(is_good).select(
        *step.keep, *(F.col(PARSED)[name].alias(name) for name in fields.names)
    )
    reason = F.when(data.isNull(), F.lit("no value"))
    for name in step.required:
        is_one = ~is_empty & F.col(PARSED)[name].isNull()
        reason = reason.when(is_one, F.lit(f"{name} is missing"))
    reason = reason.otherwise(F.lit("not Avro of this schema"))
    return good, _dead_letters(parsed.where(~is_good), reason, step)


def _dead_letters(bad: DataFrame, reason: Column, step: Parse) -> DataFrame:
    headers = [_header("reason", reason)]
    headers += [_header(name, F.col(name).cast("string")) for name in ORIGIN if name in bad.columns]
    key = F.col("key") if "key" in bad.columns else F.lit(None).cast("binary")
    return bad.select(
        key.alias("key"),
        F.col(step.column).cast("binary").alias("value"),
        F.array(*headers).alias("headers"),
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
