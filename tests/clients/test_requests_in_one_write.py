"""Requests that are sent with one write, behind one that changes the cluster.

Kafka serves a request of a connection when the one before has its response.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.compiler import decoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import response_header_version
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.schema import schema_of
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.wire import Wire

pytestmark = pytest.mark.client

ROUNDS = 20
TIMEOUT_MS = 60_000
SIZES = (1, 900, 20_000, 70_000, 300_000, 2)
"""Bytes of values: frames within and beyond what is received and decoded as a whole."""
VERSIONS = {
    ApiKey.PRODUCE: 7,
    ApiKey.CREATE_TOPICS: 4,
    ApiKey.DELETE_TOPICS: 3,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.METADATA: 5,
}


@pytest.fixture(
    params=["odradek", pytest.param("apache", marks=[pytest.mark.judge, pytest.mark.slow])],
    scope="module",
)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker that makes no topic by itself."""
    folder = tmp_path_factory.mktemp("broker")
    overrides = {"auto.create.topics.enable": "false"}
    node = odradek_broker if request.param == "odradek" else apache_node
    with node(folder, overrides=overrides) as broker:
        with Wire(broker.address) as wire:
            wait_until("the broker is registered", lambda: is_registered(wire))
        yield broker.address


def is_registered(wire: Wire) -> bool:
    metadata = wire.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), 5)
    return metadata.controller_id >= 0 and len(metadata.brokers) == 1


def all_at_once(wire: Wire, *requests: Any) -> list[Any]:
    """The responses to requests that are sent with one write."""
    keys = [ApiKey(schema_of(type(request)).api_key or 0) for request in requests]
    wire.send_together(
        [(request, VERSIONS[key]) for request, key in zip(requests, keys, strict=True)]
    )
    responses = []
    for key in keys:
        content = memoryview(wire.receive_frame())
        position = 4 + response_header_version(key, VERSIONS[key])
        responses.append(decoder(messages_of(key)[1], VERSIONS[key])(content, position)[0])
    return responses


def metadata_of(name: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )


@pytest.mark.parametrize("others", [0, 1, 60])
def test_next_request_sees_the_topic_that_is_made_extended_and_deleted(
    address: str, others: int
) -> None:
    """others  topics in the same request, whose frame may be decoded in steps"""
    with Wire(address) as wire:
        for number in range(ROUNDS if others < 2 else 2):
            names = [f"t-{others}-{number}", *(f"o-{others}-{number}-{n}" for n in range(others))]
            topics = [
                CreatableTopic(
                    name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
                for name in names
            ]
            create = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False)
            extend = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=names[0], count=3, assignments=None)],
                timeout_ms=TIMEOUT_MS,
                validate_only=False,
            )
            delete = DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS)
            look = metadata_of(names[0])
            made, first, extended, second, deleted, third = all_at_once(
                wire, create, look, extend, look, delete, look
            )
            assert {topic.error_code for topic in made.topics} == {ErrorCode.NONE}
            assert [result.error_code for result in extended.results] == [ErrorCode.NONE]
            assert {topic.error_code for topic in deleted.responses} == {ErrorCode.NONE}
            shown = [response.topics[0] for response in (first, second, third)]
            assert [(topic.error_code, len(topic.partitions)) for topic in shown] == [
                (ErrorCode.NONE, 1),
                (ErrorCode.NONE, 3),
                (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
            ]


def test_records_that_waited_behind_the_topic_are_stored_as_they_came(address: str) -> None:
    values = [bytes([number]) * size for number, size in enumerate(SIZES, ord("a"))]
    topic = CreatableTopic(
        name="filled", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    create = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
    writes = [produce_of("filled", value) for value in values]
    # The broker receives these into the same memory while the others wait.
    with Wire(address) as wire, Wire(address) as other:
        for _ in range(ROUNDS):
            other.send(metadata_of("x" * 200), VERSIONS[ApiKey.METADATA])
        made, *written = all_at_once(wire, create, *writes)
    assert [row.error_code for row in made.topics] == [ErrorCode.NONE]
    rows = [response.responses[0].partition_responses[0] for response in written]
    assert [(row.error_code, row.base_offset) for row in rows] == [
        (ErrorCode.NONE, number) for number in range(len(SIZES))
    ]
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition("filled", 0, 0)])
        messages: list[Any] = []
        wait_until("all records", lambda: len(collected(consumer, messages)) == len(SIZES))
    finally:
        consumer.close()
    assert [message.value() for message in messages] == values


def test_connection_that_ends_while_requests_wait_leaves_the_others_alone(address: str) -> None:
    for number in range(ROUNDS):
        topic = CreatableTopic(
            name=f"left-{number}",
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        create = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
        with Wire(address) as wire:
            wire.send_together([(create, 4), (metadata_of(topic.name), 5)])
            wire.await_arrival()
    with Wire(address) as wire:
        for number in range(ROUNDS):
            is_there = partial(has_one_partition, wire, f"left-{number}")
            wait_until(f"left-{number}", is_there)


def has_one_partition(wire: Wire, name: str) -> bool:
    return len(wire.call(metadata_of(name), 5).topics[0].partitions) == 1


def produce_of(topic: str, value: bytes) -> ProduceRequest:
    records = memoryview(build_batch([Record(None, value, timestamp_ms=1_700_000_000_000)]))
    partition = PartitionProduceData(index=0, records=records)
    data = [TopicProduceData(name=topic, partition_data=[partition])]
    return ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=data)


def collected(consumer: Consumer, messages: list[Any]) -> list[Any]:
    """The messages, with those that have arrived since."""
    messages += (message for message in consumer.consume(100, 0.2) if message.error() is None)
    return messages
