"""Protobuf messages by their descriptors: as Avro records, and from JSON.

Spark reads and writes Avro, and JSON.  A message is translated by Google's library into the Avro
record of the same fields: an enum is its name, a timestamp is one, a field with presence that is
missing is null.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC
from functools import lru_cache
from typing import Any, Final

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from odradek.bounded_parsing import parse_json
from odradek.pipeline.spec.field_types import text_of_option

PRIMITIVES: Final = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_UINT32: "long",
    FieldDescriptor.CPPTYPE_INT64: "long",
    FieldDescriptor.CPPTYPE_UINT64: "long",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_ENUM: "string",
}
TIMESTAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = {
    f"google.protobuf.{name}Value": kind
    for name, kind in {
        "Int32": "int",
        "UInt32": "long",
        "Int64": "long",
        "UInt64": "long",
        "Float": "float",
        "Double": "double",
        "Bool": "boolean",
        "String": "string",
        "Bytes": "bytes",
    }.items()
}
MESSAGES_MAX: Final = 64
DEPTH_MAX: Final = 30
ToAvro = Callable[[bytes], bytes]


class BadDescriptor(Exception):
    """Not a descriptor set, or one without the message, or with one that Avro cannot have."""


@lru_cache(maxsize=MESSAGES_MAX)
def message_type(descriptor_set: bytes, name: str) -> type[Message]:
    """The class of a message.

    descriptor_set  as `protoc --include_imports --descriptor_set_out` writes it
    raises          BadDescriptor
    """
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(descriptor_set)
        for file in files.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(name)
    except (DecodeError, TypeError) as error:
        raise BadDescriptor(f"not a descriptor set with its imports: {error}") from error
    except KeyError:
        names = ", ".join(_names(files)) or "none"
        raise BadDescriptor(f"{name!r} is not a message there; there are: {names}") from None
    kind: type[Message] = message_factory.GetMessageClass(descriptor)
    return kind


def _names(files: descriptor_pb2.FileDescriptorSet) -> list[str]:
    return [
        f"{file.package}.{message.name}".removeprefix(".")
        for file in files.file
        if not file.package.startswith("google.")
        for message in file.message_type
    ]


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """Where a message is in its file: its place among those of the file or the outer message."""
    indexes: list[int] = []
    inner: Descriptor | None = message
    while inner is not None:
        outer = inner.containing_type
        siblings = (
            list(inner.file.message_types_by_name)
            if outer is None
            else list(outer.nested_types_by_name)
        )
        indexes.append(siblings.index(inner.name))
        inner = outer
    return tuple(reversed(indexes))


def avro_schema(message: Descriptor) -> str:
    """The Avro schema of the records that `translator` makes.

    raises  BadDescriptor for a message that contains itself
    """
    return json.dumps(_record(message, message.full_name.replace(".", "_"), 0))


def _record(message: Descriptor, name: str, depth: int) -> dict[str, Any]:
    if depth > DEPTH_MAX:
        raise BadDescriptor(f"{message.full_name} contains itself: Spark has no such columns")
    fields = []
    for field in message.fields:
        # Names of fields could make two names one: a_b and c, a and b_c.
        kind = _type(field, f"{name}_{field.number}", depth)
        has_null = field.has_presence
        fields.append({"name": field.name, "type": ["null", kind] if has_null else kind})
    return {"type": "record", "name": name, "fields": fields}


def _type(field: FieldDescriptor, name: str, depth: int) -> Any:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return {"type": "map", "values": _single(inner.fields_by_name["value"], name, depth)}
    single = _single(field, name, depth)
    return {"type": "array", "items": single} if field.is_repeated else single


def _single(field: FieldDescriptor, name: str, depth: int) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "bytes" if field.type == FieldDescriptor.TYPE_BYTES else "string"
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return PRIMITIVES[field.cpp_type]
    inner = field.message_type.full_name
    if inner == TIMESTAMP:
        return {"type": "long", "logicalType": "timestamp-micros"}
    return WRAPPERS.get(inner) or _record(field.message_type, name, depth + 1)


def translator(descriptor_set: bytes, name: str) -> ToAvro:
    """From the bytes of a message to those of its Avro record.

    raises  BadDescriptor; what it returns raises DecodeError, and ValueError or OverflowError for a
            time or number that the record has no place for
    """
    kind = message_type(descriptor_set, name)
    schema = fastavro.parse_schema(parse_json(avro_schema(kind.DESCRIPTOR)))

    def translate(data: bytes) -> bytes:
        message = kind.FromString(data)
        written = io.BytesIO()
        fastavro.schemaless_writer(written, schema, _values(message))
        return written.getvalue()

    return translate


def _values(message: Message) -> dict[str, Any]:
    return {
        field.name: None
        if field.has_presence and not message.HasField(field.name)
        else _value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
    }


def _value(field: FieldDescriptor, value: Any) -> Any:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        of_values = inner.fields_by_name["value"]
        return {text_of_option(key): _one(of_values, value[key]) for key in value}
    return [_one(field, element) for element in value] if field.is_repeated else _one(field, value)


def _one(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        return str(value) if enum_value is None else enum_value.name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return value.ToDatetime(tzinfo=UTC)
    return value.value if name in WRAPPERS else _values(value)


def from_json(descriptor_set: bytes, name: str) -> Callable[[str], bytes]:
    """From a JSON object to the bytes of a message; a field that is null is left out.

    raises  BadDescriptor; what it returns raises json_format.ParseError
    """
    kind = message_type(descriptor_set, name)

    def write(text: str) -> bytes:
        return bytes(json_format.Parse(text, kind()).SerializeToString())

    return write


def schemas(descriptor_set: bytes, message: Descriptor) -> Mapping[str, bytes]:
    """The files that a message needs, as FileDescriptorProtos by name; its own comes last."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
    by_name = {file.name: file for file in files.file}
    texts: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in texts or name.startswith("google/protobuf/"):
            return
        for needed in by_name[name].dependency:
            add(needed)
        texts[name] = by_name[name].SerializeToString(deterministic=True)

    add(message.file.name)
    return texts
