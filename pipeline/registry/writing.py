"""The values of a Kafka sink in a format with a schema.

The schema is registered, or looked up, when the sink begins: one that the registry refuses ends the
start.  The records are written by their columns, in the order of the schema.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import StructType

from odradek.bounded_parsing import parse_json
from odradek.pipeline.registry import frames
from odradek.pipeline.registry.avro_schema import avro_schema_of, avro_text
from odradek.pipeline.registry.client import NoSuchSchema, RegistryClient, RegistryFailed, client_of
from odradek.pipeline.registry.frames import Encoding
from odradek.pipeline.registry.protobuf import (
    BadDescriptor,
    from_json,
    indexes_of,
    message_type,
    schemas,
)
from odradek.pipeline.registry.reading import descriptor_set_of
from odradek.pipeline.spec.ends import Registry
from odradek.pipeline.spec.row_schema import BadSchema, avro_columns_of
from odradek.pipeline.spec.sinks import KafkaSink
from odradek.pipeline.transforms.columns import StepInputError

MICROSECONDS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


def encoding_of(
    rows: DataFrame,
    chosen: list[str],
    sink: KafkaSink,
    registries: Mapping[str, Registry],
    folder: Path,
) -> Encoding:
    """Register, or look up, the schema of a sink whose format is not plain JSON.

    chosen  the columns of the value
    folder  of the pipeline file
    raises  StepInputError, RegistryFailed, OSError
    """
    client = None
    if sink.registry is not None:
        client = client_of(registries[sink.registry].model_dump_json())
    try:
        match sink.format:
            case "avro":
                return _avro(rows, chosen, sink, client)
            case "protobuf":
                return _protobuf(chosen, sink, client, folder)
            case _:
                return _json(chosen, sink, client)
    except NoSuchSchema as error:
        raise StepInputError(f"subject {sink.subject_name}: {error}") from error
    except BadDescriptor as error:
        raise StepInputError(f"{sink.descriptor}: {error}") from error


def _avro(
    rows: DataFrame, chosen: list[str], sink: KafkaSink, client: RegistryClient | None
) -> Encoding:
    text = sink.row_schema
    schema_id: int | None = None
    if text is None and client is not None and not sink.register_schema:
        schema_id, schema = client.newest(sink.subject_name)
        try:
            text = avro_text(client, schema)
        except RegistryFailed:
            raise
        except StepInputError as error:
            raise StepInputError(f"subject {sink.subject_name}: {error}") from error
    if text is None:
        fields = [field for field in rows.schema.fields if field.name in chosen]
        text = avro_schema_of(StructType(fields), sink.subject_name)
    columns = _in_order(text, chosen)
    if client is not None and schema_id is None:
        schema_id = _registered(client, sink, Schema(text, "AVRO"))
    header = b"" if schema_id is None else frames.header(schema_id)
    return Encoding(columns, lambda value: _after(header, to_avro(value, text)))


def _in_order(text: str, chosen: list[str]) -> list[str]:
    """The fields of an Avro schema, each of which is a column."""
    try:
        names = avro_columns_of(text)
    except BadSchema as error:
        raise StepInputError(f"schema: {error}") from error
    fields = {field["name"]: field for field in parse_json(text)["fields"]}
    columns = {name.lower() for name in chosen}
    ordered = []
    for name in names:
        if name.lower() in columns:
            ordered.append(name)
        elif "default" not in fields[name] or fields[name]["default"] is not None:
            there = ", ".join(chosen)
            raise StepInputError(f"the schema has a field {name}, the rows have: {there}")
    _check_all(chosen, names)
    return ordered


def _check_all(chosen: list[str], names: list[str]) -> None:
    fields = {name.lower() for name in names}
    for name in chosen:
        if name.lower() not in fields:
            raise StepInputError(
                f"column {name} is not in the schema; leave it out: value = [...]; the schema has:"
                f" {', '.join(names)}"
            )


def _protobuf(
    chosen: list[str], sink: KafkaSink, client: RegistryClient | None, folder: Path
) -> Encoding:
    descriptor_set = descriptor_set_of(folder, sink.descriptor)
    assert sink.message is not None, "the model has a message"
    message = message_type(descriptor_set, sink.message).DESCRIPTOR
    names = [field.name for field in message.fields]
    _check_all(chosen, names)
    by_lower = {name.lower(): name for name in names}
    # Spark names a column as it is asked for, whatever its letters are.
    columns = [name if name in names else by_lower[name.lower()] for name in chosen]
    header = b""
    if client is not None:
        files = schemas(descriptor_set, message)
        schema_id = _registered_files(client, sink, files)
        header = frames.header(schema_id) + frames.message_indexes(indexes_of(message))
    return Encoding(columns, _from_json_text(descriptor_set, sink.message, header))


def _registered_files(client: RegistryClient, sink: KafkaSink, files: Mapping[str, bytes]) -> int:
    """Register a file of messages, after those that it imports, whose subjects are their names."""
    versions: dict[str, int] = {}

    def schema_of(name: str) -> Schema:
        needed = FileDescriptorProto.FromString(files[name]).dependency
        references = [
            SchemaReference(name, name, versions[name]) for name in needed if name in versions
        ]
        return Schema(base64.b64encode(files[name]).decode(), "PROTOBUF", references)

    *imported, own = files
    for name in imported:
        schema = schema_of(name)
        if sink.register_schema:
            client.register(name, schema)
        versions[name] = client.registered(name, schema).version
    return _registered(client, sink, schema_of(own))


def _from_json_text(descriptor_set: bytes, name: str, header: bytes) -> Callable[[Column], Column]:
    import pandas
    from pyspark.sql.pandas.functions import pandas_udf

    def messages(texts: pandas.Series) -> pandas.Series:
        write = from_json(descriptor_set, name)
        return texts.map(lambda text: header + write(text))

    messages.__annotations__ = {"texts": pandas.Series, "return": pandas.Series}
    of_series: Any = pandas_udf
    written = of_series(messages, "BINARY")
    return lambda value: written(F.to_json(value, {"timestampFormat": MICROSECONDS}))


def _json(chosen: list[str], sink: KafkaSink, client: RegistryClient | None) -> Encoding:
    assert client is not None, "the model has a registry"
    if sink.row_schema is None:
        schema_id, schema = client.newest(sink.subject_name)
        if schema.schema_type != "JSON":
            kind = schema.schema_type or "AVRO"
            raise StepInputError(f"subject {sink.subject_name}: the schema is {kind}, not JSON")
    else:
        schema_id = _registered(client, sink, Schema(sink.row_schema, "JSON"))
    header = frames.header(schema_id)
    return Encoding(chosen, lambda value: _after(header, F.to_json(value).cast("binary")))


def _registered(client: RegistryClient, sink: KafkaSink, schema: Schema) -> int:
    if sink.register_schema:
        return client.register(sink.subject_name, schema)
    return client.registered(sink.subject_name, schema).schema_id


def _after(header: bytes, value: Column) -> Column:
    return F.concat(F.lit(header), value) if header else value
