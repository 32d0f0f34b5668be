"""The Avro schema of columns."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.pipeline.transforms.columns import StepInputError

PLAIN: Final[dict[type[DataType], Any]] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_schema_of(columns: StructType, name: str) -> str:
    """The schema of a record with these columns, as JSON.

    A column that may be null has null as its default, so that it can be added later.

    name    of the record; characters that Avro does not allow are replaced by _
    raises  StepInputError for a type that Avro does not have
    """
    return json.dumps(_record(columns, re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII), set()))


def _record(columns: StructType, name: str, taken: set[str]) -> dict[str, Any]:
    """taken  names of the records so far: a_b and c make the same name as a and b_c"""
    while name in taken:
        name += "_"
    taken.add(name)
    fields = []
    for column in columns.fields:
        if re.fullmatch(r"[A-Za-z_]\w*", column.name, re.ASCII) is None:
            raise StepInputError(
                f"{column.name!r} is not a name in Avro; rename it with a map step"
            )
        kind = _type(column.dataType, f"{name}_{column.name}", taken)
        if column.nullable:
            fields.append({"name": column.name, "type": ["null", kind], "default": None})
        else:
            fields.append({"name": column.name, "type": kind})
    return {"type": "record", "name": name, "fields": fields}


def _type(kind: DataType, name: str, taken: set[str]) -> Any:
    plain = PLAIN.get(type(kind))
    if plain is not None:
        return plain
    match kind:
        case DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        case ArrayType():
            return {
                "type": "array",
                "items": _or_null(_type(kind.elementType, name, taken), kind.containsNull),
            }
        case MapType() if isinstance(kind.keyType, StringType):
            values = _or_null(_type(kind.valueType, name, taken), kind.valueContainsNull)
            return {"type": "map", "values": values}
        case StructType():
            return _record(kind, name, taken)
    raise StepInputError(f"{name}: Avro has no type for {kind.simpleString()}")


def _or_null(kind: Any, is_nullable: bool) -> Any:
    return ["null", kind] if is_nullable else kind
