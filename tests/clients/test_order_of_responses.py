"""Responses to requests that are sent with one write, around one that is refused at once.

Kafka serves a request of a connection when the one before has its response.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.wire import Closed, Wire, frame

pytestmark = pytest.mark.client

TOPIC = "ordered"
PRODUCE_VERSION = 7
UNKNOWN_API, UNKNOWN_VERSION = 999, 99
ALL_FOUR, FIRST_TWO = [0, 1, 2, 3], [0, 1]
SIZES = [(1, 1), (900, 20_000), (70_000, 2), (300_000, 300_000)]
"""Bytes of the values of the first two: within and beyond what is decoded as a whole."""


@pytest.fixture(
    params=["odradek", pytest.param("apache", marks=[pytest.mark.judge, pytest.mark.slow])],
    scope="module",
)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("broker")
    node = odradek_broker if request.param == "odradek" else apache_node
    with node(folder, overrides={"auto.create.topics.enable": "false"}) as broker:
        topic = CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        with Wire(broker.address) as wire:
            create = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
            wait_until(
                "the topic",
                lambda: wire.call(create, 4).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS,
            )
            wait_until("its leader", lambda: is_written(wire))
        yield broker.address


def is_written(wire: Wire) -> bool:
    (topic,) = wire.call(produce(), PRODUCE_VERSION).responses
    return bool(topic.partition_responses[0].error_code == ErrorCode.NONE)


def produce(*, acks: int = 1, topic: str = TOPIC, value: bytes = b"v") -> ProduceRequest:
    records = memoryview(build_batch([Record(b"k", value, timestamp_ms=1_700_000_000_000)]))
    partition = PartitionProduceData(index=0, records=records)
    data = [TopicProduceData(name=topic, partition_data=[partition])]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=data)


def produced(request: ProduceRequest) -> bytes:
    return encoder(ProduceRequest, PRODUCE_VERSION)(request)


def framed(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    header = bytearray(encode_request_header(ApiKey.METADATA, 1, correlation_id, "wire"))
    struct.pack_into(">hh", header, 0, api_key, version)
    return frame(bytes(header) + body)


REFUSED = {
    "acks of 5": (ApiKey.PRODUCE, PRODUCE_VERSION, produced(produce(acks=5)), ALL_FOUR),
    "version of ApiVersions": (ApiKey.API_VERSIONS, UNKNOWN_VERSION, bytes(8), ALL_FOUR),
    "version of Produce": (ApiKey.PRODUCE, UNKNOWN_VERSION, bytes(8), FIRST_TWO),
    "version of Metadata": (ApiKey.METADATA, UNKNOWN_VERSION, bytes(8), FIRST_TWO),
    "malformed Metadata": (ApiKey.METADATA, 1, b"\x7f\xff\xff\xff", FIRST_TWO),
    "malformed Produce": (ApiKey.PRODUCE, PRODUCE_VERSION, b"\xff\xff\0\1", FIRST_TWO),
    "unknown API": (UNKNOWN_API, 1, b"", FIRST_TWO),
    "acks of 0 to no topic": (
        *(ApiKey.PRODUCE, PRODUCE_VERSION, produced(produce(acks=0, topic="absent"))),
        FIRST_TWO,
    ),
}
"""Name -> (API key, version, body, the requests that have a response)."""


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", REFUSED)
def test_requests_before_one_that_is_refused_have_their_responses_first(
    address: str, name: str, sizes: tuple[int, int]
) -> None:
    api_key, version, body, expected = REFUSED[name]
    values = [bytes([97 + number]) * size for number, size in enumerate((*sizes, 1, 1))]
    frames = [
        framed(ApiKey.PRODUCE, PRODUCE_VERSION, number, produced(produce(value=value)))
        for number, value in enumerate(values)
    ]
    frames[2] = framed(api_key, version, 2, body)
    responded: list[int] = []
    offsets: list[int] = []
    with Wire(address) as wire:
        wire.send_bytes(b"".join(frames[: len(expected) + 1]))
        try:
            while len(responded) < 4:
                content = memoryview(wire.receive_frame())
                responded.append(struct.unpack_from(">i", content)[0])
                if responded[-1] != 2:
                    response = decoder(ProduceResponse, PRODUCE_VERSION)(content, 4)[0]
                    offsets.append(response.responses[0].partition_responses[0].base_offset)
        except Closed:
            assert expected == FIRST_TWO
    assert responded == expected
    assert stored(address, offsets[:2]) == values[:2]


def stored(address: str, offsets: list[int]) -> list[bytes | None]:
    """The values at offsets, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader"})
    values = []
    try:
        for offset in offsets:
            consumer.assign([TopicPartition(TOPIC, 0, offset)])
            (message,) = consumer.consume(1, 60)
            assert (message.error(), message.offset()) == (None, offset)
            values.append(message.value())
    finally:
        consumer.close()
    return values
