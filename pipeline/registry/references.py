"""Avro schemas that refer to others, as one schema that stands alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import fastavro
from confluent_kafka.schema_registry import Schema

from odradek.bounded_parsing import parse_json
from odradek.pipeline.registry.client import RegistryClient
from odradek.pipeline.transforms.columns import StepInputError

SAID_MAX: Final = 200
"""Characters of the library's reason."""


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
    return json.dumps(_whole(whole, named, set()))


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


def _whole(parsed: Any, named: Mapping[str, Any], written: set[str]) -> Any:
    """A part of a schema; `written` has the names whose schemas precede it."""

    def inner(part: Any) -> Any:
        return _whole(part, named, written)

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
