"""Records in the topics of tests."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

READ_TIMEOUT_S = 180.0


def produce(address: str, topic: str, values: list[bytes]) -> None:
    """Write records without keys."""
    producer = Producer({"bootstrap.servers": address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(READ_TIMEOUT_S) == 0


def consume(
    address: str, topic: str, count: int
) -> list[tuple[bytes | None, bytes | None, dict[str, Any]]]:
    """Key, value and headers of the first `count` records."""
    messages = read_messages(address, topic, count)
    return [(message.key(), message.value(), headers_of(message)) for message in messages]


def headers_of(message: Message) -> dict[str, Any]:
    """Header name -> value; of several with one name the last one."""
    return dict[str, Any](message.headers() or [])


def read_messages(address: str, topic: str, count: int) -> list[Message]:
    """The first records of partition 0."""
    settings = {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    messages: list[Message] = []
    deadline_s = monotonic() + READ_TIMEOUT_S
    while len(messages) < count and monotonic() < deadline_s:
        message = consumer.poll(0.5)
        # librdkafka returns an error until it knows the leader of the topic.
        if message is not None and message.error() is None:
            messages.append(message)
    consumer.close()
    return messages


def payment(number: int) -> bytes:
    """One record."""
    return json.dumps({"merchant": f"m{number % 3}", "amount": float(number)}).encode()


def avro(client: SchemaRegistryClient, topic: str, schema: Any, value: Any) -> bytes:
    serializer = AvroSerializer(client, json.dumps(schema))
    written: bytes = serializer(value, SerializationContext(topic, MessageField.VALUE))
    return written
