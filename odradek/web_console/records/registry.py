"""Avro, Protobuf and JSON by the schemas of a registry, in Confluent's wire format.

Source: Confluent's "Wire format" of Schema Registry.
"""

from __future__ import annotations

import base64
import binascii
import io
import threading
import time
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from odradek.bounded_parsing import parse_json
from odradek.tools.client import ClientError
from odradek.web_console.records.decoding import FRAME_BYTES, Undecodable, parse_document

READERS_MAX: Final = 500
FAILED_S: Final = 10.0
"""How long a schema that cannot be had is not asked for again."""
REFERENCES_MAX: Final = 100
_HEADER: Final = Struct(">bI")
OPTIONS: Final = {"timeout": 5, "max.retries": 1}

Read = Callable[[bytes], tuple[str, Any]]
"""Reads what follows the header."""


class SchemaRegistry:
    """Decodes records by the schemas of a registry, which are read once.  Used in threads."""

    def __init__(self, url: str, configs: Mapping[str, str]) -> None:
        """
        configs  client properties, of which `basic.auth.user.info` is used
        raises   ClientError for an invalid URL
        """
        credentials = configs.get("basic.auth.user.info")
        options = {} if credentials is None else {"basic.auth.user.info": credentials}
        try:
            self._client = SchemaRegistryClient({"url": url, **OPTIONS, **options})
        except (TypeError, ValueError) as error:
            raise ClientError(f"--schema-registry: {error}") from None
        self._lock = threading.Lock()
        self._readers: dict[int, Read] = {}
        self._failures: dict[int, tuple[float, str]] = {}

    def decode(self, data: bytes) -> tuple[str, Any]:
        """The kind of schema and the value, of types that JSON has.

        raises  Undecodable
        """
        if len(data) < FRAME_BYTES or data[0] != 0:
            raise Undecodable("no header of a schema registry")
        (_, schema_id) = _HEADER.unpack_from(data)
        reader = self._reader(schema_id)
        try:
            return reader(data[FRAME_BYTES:])
        except Exception as error:  # noqa: BLE001 - libraries raise all kinds for damaged data
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise Undecodable(f"schema {schema_id}: {reason}") from None

    def _reader(self, schema_id: int) -> Read:
        with self._lock:
            reader = self._readers.get(schema_id)
            if reader is not None:
                return reader
            failed_at_s, reason = self._failures.get(schema_id, (-FAILED_S, ""))
            if time.monotonic() - failed_at_s < FAILED_S:
                raise Undecodable(reason)
            try:
                reader = self._make_reader(schema_id)
            except Exception as error:  # noqa: BLE001 - those of the HTTP library, of schemas
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                reason = f"schema {schema_id}: {reason}"
                if len(self._failures) >= READERS_MAX:
                    self._failures.clear()
                self._failures[schema_id] = (time.monotonic(), reason)
                raise Undecodable(reason) from None
            if len(self._readers) >= READERS_MAX:
                self._readers.clear()
            self._readers[schema_id] = reader
            return reader

    def _make_reader(self, schema_id: int) -> Read:
        schema = self._client.get_schema(schema_id)
        match schema.schema_type or "AVRO":
            case "AVRO":
                named: dict[str, Any] = {}
                self._add_references(schema, named)
                parsed = fastavro.parse_schema(
                    parse_json(schema.schema_str or ""), named_schemas=named
                )
                return lambda data: (
                    "avro",
                    _plain(fastavro.schemaless_reader(io.BytesIO(data), parsed, None)),
                )
            case "JSON":
                return lambda data: ("json-schema", parse_document(data))
            case "PROTOBUF":
                return self._protobuf_reader(schema_id, schema)
            case kind:
                raise Undecodable(f"{kind} is not a kind of schema that the console reads")

    def _add_references(self, schema: Schema, named: dict[str, Any]) -> None:
        for reference in schema.references or ():
            version = self._client.get_version(reference.subject or "", reference.version or 1)
            if version.schema is None or len(named) > REFERENCES_MAX:
                raise Undecodable("a schema that it refers to is missing")
            self._add_references(version.schema, named)
            fastavro.parse_schema(parse_json(version.schema.schema_str or ""), named_schemas=named)

    def _protobuf_reader(self, schema_id: int, schema: Schema) -> Read:
        pool = descriptor_pool.DescriptorPool()
        self._add_files(schema, pool, {})
        file = _file_of(self._client.get_schema(schema_id, fmt="serialized").schema_str or "")
        pool.Add(file)

        def read(data: bytes) -> tuple[str, Any]:
            indexes, place = _message_indexes(data)
            names, messages = [file.package] if file.package else [], file.message_type
            for index in indexes:
                names.append(messages[index].name)
                messages = messages[index].nested_type
            kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(".".join(names)))
            message = kind()
            try:
                message.ParseFromString(data[place:])
            except DecodeError as error:
                raise Undecodable(str(error)) from None
            return "protobuf", json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=pool
            )

        return read

    def _add_files(
        self, schema: Schema, pool: descriptor_pool.DescriptorPool, added: dict[str, int]
    ) -> None:
        for reference in schema.references or ():
            name = reference.name or ""
            if name in added or len(added) > REFERENCES_MAX:
                continue
            added[name] = 1
            subject, version = reference.subject or "", reference.version or 1
            plain = self._client.get_version(subject, version)
            if plain.schema is not None:
                self._add_files(plain.schema, pool, added)
            packed = self._client.get_version(subject, version, fmt="serialized").schema
            file = _file_of((packed.schema_str if packed else None) or "")
            file.name = name
            pool.Add(file)


def _file_of(text: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise Undecodable("the registry does not serve descriptors (format=serialized)") from None


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """The indexes of a message in its file, and where the message begins."""
    count, place = _zigzag(data, 0)
    indexes = []
    for _ in range(min(count, len(data))):
        index, place = _zigzag(data, place)
        indexes.append(index)
    return indexes or [0], place


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1, place
    raise Undecodable("an index of the message has too many bytes")


def _plain(value: Any) -> Any:
    """A value of Avro in types that JSON has."""
    match value:
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case bytes():
            return value.decode("latin-1")
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
    return str(value)
