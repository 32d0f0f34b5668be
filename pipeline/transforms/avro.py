"""Decodes Avro strictly: errors that Spark's decoder ignores are found by encoding again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import StringType, StructType

from odradek.bounded_parsing import parse_json
from odradek.pipeline.spark.gateway import java

PLAIN: Final = ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
TIMES: Final = ("timestamp-millis", "timestamp-micros", "date")


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows with the decoded struct as an added column.

    is_readable  whether the bytes are exactly one record of the schema
    texts        field -> whether it is null or UTF-8
    """

    rows: DataFrame
    schema: StructType
    is_readable: Column
    texts: dict[str, Column]


def read_avro(rows: DataFrame, data: Column, schema_text: str, name: str) -> DecodedRows:
    """Add the column `name` with the fields of the record.

    Trailing bytes are detected when every field is plain: a number, text, bytes, a time, or one of
    these or null.  Other types (a map) have several encodings: with them trailing bytes are not
    detected, and a record of nulls only is taken for an unreadable one.

    raises  py4j.protocol.Py4JJavaError for an invalid schema
    """
    jvm = java(rows.sparkSession)
    # PySpark's own function fails on Java's error for an invalid schema.
    getattr(jvm.org.apache.avro.Schema, "Parser")().parse(schema_text)  # noqa: B009
    rows = rows.withColumn(name, from_avro(data, schema_text, {"mode": "PERMISSIVE"}))
    parsed = F.col(name)
    # An unreadable record is decoded as a struct of nulls.
    structure = rows.schema[name].dataType
    assert isinstance(structure, StructType), "the Avro schema is a record's"
    fields = parse_json(schema_text)["fields"]
    texts = {
        field.name: F.coalesce(F.is_valid_utf8(parsed[field.name]), F.lit(True))
        for field in structure.fields
        if isinstance(field.dataType, StringType)
    }
    if all(_is_plain(field["type"]) for field in fields):
        # A null that the schema forbids: encoding it would raise an error.
        required = [
            parsed[avro_field["name"]].isNotNull()
            for avro_field in fields
            if not _is_nullable(avro_field)
        ]
        is_there = reduce(lambda left, right: left & right, required, parsed.isNotNull())
        again = F.when(is_there, to_avro(parsed, schema_text))
        is_readable = F.coalesce(again == data, F.lit(False))
    else:
        present = [parsed[field].isNotNull() for field in structure.names]
        is_readable = reduce(lambda left, right: left | right, present)
    for is_text in texts.values():
        is_readable = is_readable & is_text
    return DecodedRows(rows, structure, is_readable, texts)


def _is_plain(kind: Any) -> bool:
    """Whether values of a type have one encoding only, which is the one of Spark."""
    if isinstance(kind, list):
        others = [other for other in kind if other != "null"]
        return len(others) == 1 and len(kind) == 2 and _is_plain(others[0])
    if isinstance(kind, dict):
        return kind.get("logicalType") in TIMES or (
            "logicalType" not in kind and kind.get("type") in PLAIN
        )
    return kind in PLAIN


def _is_nullable(field: dict[str, Any]) -> bool:
    return field["type"] == "null" or (isinstance(field["type"], list) and "null" in field["type"])
