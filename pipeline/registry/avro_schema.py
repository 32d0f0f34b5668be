"""Avro schemas: of columns, and of a registry as one that stands alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import fastavro
from confluent_kafka.schema_registry import Schema
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

from odradek.bounded_parsing import parse_json
from odradek.pipeline.registry.client import RegistryClient
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

SAID_MAX: Final = 200
"""Characters of the library's reason."""


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


def avro_text(client: RegistryClient, schema: Schema) -> str:
    """The text of a schema of a registry; what it refers to is written where it is first named.

    raises  NoSuchSchema, RegistryFailed, StepInputError for one that is not Avro, or that fastavro
            refuses
    """
    kind = schema.schema_type or "AVRO"
    if kind != "AVRO":
        raise StepInputError(f"the schema is {kind}, not AVRO")
    assert schema.schema_str is not None, "a schema has a text"
    try:
        parsed = parse_json(schema.schema_str)
        if not schema.references:
            return schema.schema_str
        named = _named(client, schema)
        whole = fastavro.parse_schema(parsed, named_schemas=dict(named))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError) as error:
        raise StepInputError(" ".join(str(error).split())[:SAID_MAX]) from error
    return json.dumps(_standing_alone(whole, named, set()))


def _named(client: RegistryClient, schema: Schema) -> dict[str, Any]:
    """Full name -> each schema to which one refers, itself or by another."""
    named: dict[str, Any] = {}
    for reference in schema.references or ():
        assert reference.subject is not None, "a reference has a subject"
        assert reference.version is not None, "a reference has a version"
        version = client.version(reference.subject, reference.version)
        assert version.schema_str is not None, "a schema has a text"
        of_reference = _named(client, version)
        # fastavro adds the schemas that it parses.
        fastavro.parse_schema(parse_json(version.schema_str), named_schemas=of_reference)
        named |= of_reference
    return named


def _standing_alone(parsed: Any, named: Mapping[str, Any], written: set[str]) -> Any:
    """A part of a schema; `written` has the names whose schemas precede it."""

    def inner(part: Any) -> Any:
        return _standing_alone(part, named, written)

    match parsed:
        case str():
            return inner(named[parsed]) if parsed in named and parsed not in written else parsed
        case list():
            return [inner(element) for element in parsed]
        case {"name": str(name)}:
            written.add(name)
    part = {key: value for key, value in parsed.items() if not key.startswith("__")}
    containers: dict[str, Callable[[Any], Any]] = {
        "fields": lambda fields: [{**field, "type": inner(field["type"])} for field in fields],
        "items": inner,
        "values": inner,
    }
    return {
        key: containers[key](value) if key in containers else value for key, value in part.items()
    }
