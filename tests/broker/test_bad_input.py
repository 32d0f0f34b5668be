"""Bytes that no client should send: a clear error or a closed connection, and others are served.

A real process is asked, because what counts is what the socket, the memory and the other clients
see.
"""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.records.builder import sealed_batch
from odradek.protocol.records.record import encode_record
from tests.scripts.chapters import batches
from tests.scripts.chapters.batches import batch, big_batch, patched, produce_request, sealed
from tests.scripts.normal import FIXED_MS
from tests.scripts.talk import metadata_of
from tests.support.broker_process import GIVE_BACK, BrokerProcess, odradek_broker
from tests.support.wire import Closed, Wire, frame

MEBIBYTE = 1 << 20
MEMORY_GROWTH_MAX = 24 * MEBIBYTE
BOMB_BYTES = 512 * MEBIBYTE
BOMB_MEMORY_MAX = 320 * MEBIBYTE
CLOSE_TIMEOUT_S = 60.0
TOPIC = "undisturbed"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One process for all of them: what one leaves behind would hurt the next."""
    with odradek_broker(tmp_path_factory.mktemp("broker"), environment=GIVE_BACK) as running:
        with Wire(running.address) as wire:
            make_topic(wire, TOPIC, {})
            make_topic(wire, "recompressed", {"compression.type": "lz4"})
        yield running


@pytest.fixture
def neighbour(broker: BrokerProcess) -> Iterator[Wire]:
    """Another client, connected before the bad input, that must still be served after it."""
    with Wire(broker.address) as wire:
        assert_served(wire)
        yield wire
        assert_served(wire)
    assert broker.process.running()


def make_topic(wire: Wire, name: str, configs: dict[str, str]) -> None:
    """A topic with one partition."""
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    response = wire.call(CreateTopicsRequest(topics=[topic]), 7)
    assert response.topics[0].error_code == 0


def assert_served(wire: Wire) -> None:
    """Metadata and a record go through."""
    assert wire.call(metadata_of([TOPIC]), 12).topics[0].error_code == 0
    response = wire.call(produce_request(TOPIC, batch(1)), 9)
    assert response.responses[0].partition_responses[0].error_code == 0


def sent_and_ended(broker: BrokerProcess, content: bytes) -> bool:
    """Whether the broker closes a connection on which these bytes came."""
    with Wire(broker.address, timeout_s=CLOSE_TIMEOUT_S) as wire:
        wire.send_bytes(content)
        return wire.has_ended()


BAD_FRAMES = {
    "a length of 2 GiB": struct.pack(">i", 2**31 - 1) + b"\x00" * 100,
    "a length below zero": struct.pack(">i", -1),
    "the smallest length": struct.pack(">i", -(2**31)),
    "an empty frame": struct.pack(">i", 0),
    "a frame of one byte": frame(b"\x00"),
    "an unknown key": frame(encode_request_header(1000, 0, 1, "x")),
    "a key below zero": frame(encode_request_header(-5, 0, 1, "x")),
    "an unknown version": frame(encode_request_header(3, 99, 1, "x") + b"\x00" * 20),
    "a client id longer than the frame": frame(struct.pack(">hhih", 3, 1, 1, 30_000)),
    "a client id below null": frame(struct.pack(">hhih", 3, 1, 1, -7)),
    "no body": frame(encode_request_header(0, 9, 1, "x")),
    "a count of 2 billion": frame(encode_request_header(3, 1, 1, "x") + b"\x7f\xff\xff\xff"),
    "a varint without an end": frame(encode_request_header(3, 9, 1, "x") + b"\xff" * 40),
    "a name that is no text": frame(
        encode_request_header(3, 1, 1, "x") + struct.pack(">ih", 1, 4) + b"\xff\xfe\xfd\xfc"
    ),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 506,
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_invalid_frame_closes_only_its_connection(
    broker: BrokerProcess, neighbour: Wire, name: str
) -> None:
    assert sent_and_ended(broker, BAD_FRAMES[name])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("an HTTP request", "this is HTTP; the listener speaks Kafka's protocol"),
        ("a TLS hello", "this is a TLS handshake; the listener speaks plaintext"),
    ],
)
def test_another_protocol_on_a_plaintext_listener_is_named_in_the_log(
    tmp_path: Path, name: str, reason: str
) -> None:
    with odradek_broker(tmp_path) as broker:
        assert sent_and_ended(broker, BAD_FRAMES[name])
        broker.process.wait_for_line(f"closing 127.0.0.1: {reason}", timeout_s=CLOSE_TIMEOUT_S)


def test_random_bytes_neither_stop_the_broker_nor_fill_its_memory(
    broker: BrokerProcess, neighbour: Wire
) -> None:
    chance = random.Random(20_261_121)
    before_bytes = broker.process.rss_bytes()
    for _ in range(300):
        with Wire(broker.address, timeout_s=CLOSE_TIMEOUT_S) as wire:
            noise = chance.randbytes(chance.randrange(1, 2_000))
            key, version = chance.randrange(93), chance.randrange(18)
            if chance.random() < 0.7:
                noise = frame(encode_request_header(key, version, 1, "x") + noise)
            wire.send_bytes(noise)
    assert_served(neighbour)
    assert broker.process.rss_bytes() - before_bytes < MEMORY_GROWTH_MAX


def test_requests_with_flipped_bits_get_a_response_or_close_their_connection(
    broker: BrokerProcess, neighbour: Wire
) -> None:
    chance = random.Random(7)
    good = capture(produce_request("never-made", batch(2)), 9) + capture(metadata_of([TOPIC]), 12)
    before_bytes = broker.process.rss_bytes()
    for _ in range(200):
        damaged = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(4, len(damaged))] ^= 1 << chance.randrange(8)
        with Wire(broker.address, timeout_s=CLOSE_TIMEOUT_S) as wire:
            wire.send_bytes(bytes(damaged))
    assert_served(neighbour)
    assert broker.process.rss_bytes() - before_bytes < MEMORY_GROWTH_MAX


def capture(request: object, version: int) -> bytes:
    """The bytes of a request."""

    class Recorder(Wire):
        def __init__(self) -> None:
            self.content = b""
            self._correlation_id = 0
            self._client_id = "recorder"

        def send_bytes(self, content: bytes) -> None:
            self.content += content

    recorder = Recorder()
    recorder.send(request, version)
    return recorder.content


def test_truncated_frame_is_released_with_its_connection(
    broker: BrokerProcess, neighbour: Wire
) -> None:
    before = broker.process.open_files()
    for _ in range(50):
        with Wire(broker.address) as wire:
            wire.send_bytes(struct.pack(">i", 1_000) + b"\x00" * 10)
    assert_served(neighbour)
    with Wire(broker.address) as wire:
        assert_served(wire)
    assert broker.process.open_files() <= before + 2


def test_half_sent_large_frames_do_not_block_others(broker: BrokerProcess, neighbour: Wire) -> None:
    with ExitStack() as wires:
        for _ in range(16):
            wire = wires.enter_context(Wire(broker.address))
            wire.send_bytes(struct.pack(">i", 90 * MEBIBYTE) + b"\x00" * 100_000)
        response = neighbour.call(produce_request(TOPIC, big_batch(900_000)), 9)
        assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("count", [10_001, 2**31 - 1])
@pytest.mark.parametrize("validate_only", [False, True])
def test_excessive_partition_count_is_refused_at_once(
    neighbour: Wire, count: int, validate_only: bool
) -> None:
    topic = CreatableTopic(
        name="huge", num_partitions=count, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], validate_only=validate_only)
    assert neighbour.call(request, 7).topics[0].error_code == ErrorCode.POLICY_VIOLATION
    grown = CreatePartitionsTopic(name=TOPIC, count=min(count + 1, 2**31 - 1), assignments=None)
    more = CreatePartitionsRequest(topics=[grown], timeout_ms=1000, validate_only=validate_only)
    assert neighbour.call(more, 3).results[0].error_code == ErrorCode.POLICY_VIOLATION
    assert_served(neighbour)


def test_announced_large_frames_take_no_memory(broker: BrokerProcess, neighbour: Wire) -> None:
    before_bytes = broker.process.rss_bytes()
    with ExitStack() as wires:
        for _ in range(40):
            wire = wires.enter_context(Wire(broker.address))
            wire.send_bytes(struct.pack(">i", 90 * MEBIBYTE) + b"\x00" * 1_000)
        assert_served(neighbour)
        assert broker.process.rss_bytes() - before_bytes < MEMORY_GROWTH_MAX


GOOD = batch(3)
BAD_BATCHES = {
    "a wrong checksum": (patched(GOOD, batches.CRC_POSITION, "I", 1), ErrorCode.CORRUPT_MESSAGE),
    "magic 9": (patched(GOOD, batches.MAGIC_POSITION, "b", 9), ErrorCode.CORRUPT_MESSAGE),
    "a count of 2 billion": (
        sealed(patched(GOOD, batches.COUNT_POSITION, "i", 2**31 - 1)),
        ErrorCode.INVALID_RECORD,
    ),
    "a count below zero": (
        sealed(patched(GOOD, batches.COUNT_POSITION, "i", -1)),
        ErrorCode.INVALID_RECORD,
    ),
    "a count that is too small": (
        sealed(patched(GOOD, batches.COUNT_POSITION, "i", 1)),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_damaged_batch_is_refused_and_its_connection_stays_open(
    broker: BrokerProcess, neighbour: Wire, name: str
) -> None:
    content, code = BAD_BATCHES[name]
    with Wire(broker.address) as wire:
        response = wire.call(produce_request(TOPIC, content), 9)
        assert response.responses[0].partition_responses[0].error_code == code
        assert_served(wire)


def bomb() -> bytearray:
    """A batch of one record whose value is half a gigabyte of zeros, half a megabyte packed."""
    head = encode_record(offset_delta=0, timestamp_delta_ms=0, key=None, value=b"", headers=())
    packed = gzip.compress(bytes(head) + bytes(BOMB_BYTES), compresslevel=9)
    return sealed_batch(packed, 0, -1, 1, 0, FIXED_MS, FIXED_MS, -1, -1, -1, 1)


def test_zip_bomb_on_a_topic_that_recompresses_is_refused_within_bounds(
    broker: BrokerProcess, neighbour: Wire
) -> None:
    with Wire(broker.address) as wire:
        wire.send(produce_request("recompressed", bomb()), 9)
        assert_served(neighbour)
        try:
            response = wire.receive(0, 9)
        except Closed:
            pass
        else:
            assert response.responses[0].partition_responses[0].error_code != 0
    assert peak_bytes(broker) < BOMB_MEMORY_MAX


def peak_bytes(broker: BrokerProcess) -> int:
    """The most memory that the process ever held."""
    for line in Path(f"/proc/{broker.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell VmHWM")


def test_client_that_never_reads_its_responses_does_not_block_others(
    broker: BrokerProcess, neighbour: Wire
) -> None:
    before_bytes = broker.process.rss_bytes()
    with Wire(broker.address, timeout_s=1.0) as deaf:
        try:
            for _ in range(20_000):
                deaf.send(ApiVersionsRequest(), 0)
        except TimeoutError:
            pass  # the broker stopped reading from it, which is right
        assert_served(neighbour)
        assert broker.process.rss_bytes() - before_bytes < 4 * MEMORY_GROWTH_MAX
