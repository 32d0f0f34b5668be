"""Records of clients of a schema registry that is not ours, by the schemas in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import struct_pb2

from tests.support.broker_process import odradek_broker
from tests.support.schema_registry import schema_registry
from tests.web_console.console_process import WAIT_S, create_topics, web_console

pytestmark = pytest.mark.client

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "proof", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}
JSON_SCHEMA = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}


def serialized(client: SchemaRegistryClient) -> dict[str, Any]:
    """A value in each format, by its topic."""
    avro = AvroSerializer(client, json.dumps(AVRO))
    as_json = JSONSerializer(json.dumps(JSON_SCHEMA), client)
    protobuf = ProtobufSerializer(struct_pb2.Value, client, {"use.deprecated.format": False})
    return {
        "avro": avro(
            {"id": 7, "user": "ann", "proof": b"\xff", "day": 20_000},
            SerializationContext("avro", MessageField.VALUE),
        ),
        "json": as_json({"id": 8}, SerializationContext("json", MessageField.VALUE)),
        "protobuf": protobuf(
            struct_pb2.Value(string_value="nine"),
            SerializationContext("protobuf", MessageField.VALUE),
        ),
    }


def test_records_are_decoded_by_the_schema_of_their_writer(tmp_path: Path) -> None:
    with schema_registry(tmp_path) as registry, odradek_broker(tmp_path) as broker:
        client = SchemaRegistryClient({"url": registry.url})
        values = serialized(client)
        create_topics(broker.address, dict.fromkeys(values, 1))
        producer = Producer({"bootstrap.servers": broker.address})
        for topic, value in values.items():
            producer.produce(topic, value, "k")
            producer.produce(topic, b"\0\0\0\xff\xffdamaged", "unknown schema")
        assert producer.flush(WAIT_S) == 0
        words = ["--bootstrap-server", broker.address, "--schema-registry", registry.url]
        with web_console(tmp_path, words) as console:
            shown = {}
            for topic in values:
                path = f"/clusters/cluster/topics/{topic}/records"
                unknown, row = console.json(f"{path}?limit=2")["records"]
                assert (row["key"], unknown["value_format"]) == ("k", "hex")
                shown[topic] = (row["value_format"], json.loads(row["value"]))
                (failed,) = console.json(f"{path}?limit=1&value_format=registry")["records"]
                assert failed["value"].startswith("schema 65535: ")
            assert shown == {
                "avro": ("avro", {"id": 7, "user": "ann", "proof": "\xff", "day": "2024-10-04"}),
                "json": ("json-schema", {"id": 8}),
                "protobuf": ("protobuf", "nine"),
            }
            path = "/clusters/cluster/topics/avro/records"
            assert len(console.json(f"{path}?text=ANN")["records"]) == 1
            assert len(console.json(f"{path}?path=@.id%20==%207")["records"]) == 1
