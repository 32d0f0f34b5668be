"""What clients have sent is what is stored, whatever others send while their requests wait.

Requests of all sizes, around the bounds of the receive buffers, arrive whole and in pieces, on many
connections; some wait for a thread, or for the coordinator of a transaction.  Lent memory is
overwritten when its loan ends (tests/__init__.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.frames import SMALL_FRAME_BYTES, TAKEN_MAX
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.records.batch import RecordBatch, iterate_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record, decode_records
from tests.scripts.chapters.batches import produce_to
from tests.support.node_here import Caller, NodeHere, decoded, framed, node_here

TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "gzip", "compression.gzip.level": "1"},
    "stamped": {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"},
}
PARTITIONS: Final = 3
CLIENTS: Final = 8
ROUNDS: Final = 30
FRAME_SIZES: Final = (300, 16_384, SMALL_FRAME_BYTES, 131_072, 262_144, 1_000_000)
RECORD_COUNTS: Final = (1, 20, 501, 1_400, 5_000)
PRODUCE_VERSION: Final = 9

Stored = dict[tuple[str, int], list[tuple[int, list[tuple[bytes | None, bytes | None]]]]]
"""(topic, partition) -> (base offset, keys and values) of each acknowledged batch."""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[NodeHere]:
    settings = {
        "log.cleaner.enable": "false",
        "message.max.bytes": "2000000",
        "transaction.state.log.num.partitions": "1",
    }
    with node_here(
        tmp_path, **{key.replace(".", "_"): value for key, value in settings.items()}
    ) as node:
        make_topics(node)
        yield node


def make_topics(here: NodeHere) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=PARTITIONS,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    response = here.call(here.caller(), CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    assert [topic.error_code for topic in response.topics] == [0] * len(TOPICS)


class Client:
    """A producer with several requests in flight on one connection."""

    def __init__(self, here: NodeHere, number: int, draw: random.Random) -> None:
        self.caller: Caller = here.caller()
        self._number = number
        self._draw = draw
        self._made = 0
        self.sent: list[dict[tuple[str, int], list[Record]]] = []
        """What each request without a response has for each partition; Metadata has nothing."""
        self.rest = b""
        """What the client sends in its next turns."""

    def batch(self, payload_bytes: int) -> tuple[list[Record], bytearray]:
        """Records whose values say who has sent them, and their batch."""
        draw = self._draw
        count = draw.choice(RECORD_COUNTS)
        value_bytes = max(16, payload_bytes // count - 24)
        if value_bytes == 16:
            count = max(1, payload_bytes // 40)
        records = []
        for number in range(count):
            self._made += 1
            value = f"{self._number}-{self._made}-".encode()
            filled = value + bytes((97 + self._number,)) * (value_bytes - len(value))
            key = f"key-{self._number}-{number % 50}".encode()
            records.append(Record(key, filled, timestamp_ms=1_700_000_000_000 + number))
        return records, build_batch(records, codec=draw.choice((0, 0, 0, 1, 2, 3, 4)))

    def make_request(self) -> bytes:
        """The frame of a request of some size."""
        draw = self._draw
        correlation_id = len(self.sent)
        if draw.random() < 0.15:
            self.sent.append({})
            names = [
                MetadataRequestTopic(name=f"no-topic-{number}")
                for number in range(draw.choice((1, 100, 3_000)))
            ]
            request: Any = MetadataRequest(topics=names, allow_auto_topic_creation=False)
            return framed(request, PRODUCE_VERSION, correlation_id)
        frame_bytes = draw.choice(FRAME_SIZES) + draw.randint(-60, 60)
        places = draw.sample(
            [(topic, index) for topic in TOPICS for index in range(PARTITIONS)],
            draw.choice((1, 1, 1, 2, 5)),
        )
        parts: list[tuple[str, int, bytes | bytearray | None]] = []
        contents: dict[tuple[str, int], list[Record]] = {}
        for topic, index in places:
            records, batch = self.batch(frame_bytes // len(places) - 90)
            contents[topic, index] = records
            parts.append((topic, index, batch))
        self.sent.append(contents)
        return framed(produce_to(parts), PRODUCE_VERSION, correlation_id)

    def step(self) -> None:
        """Send a request whole, or a piece of what is left."""
        draw = self._draw
        if not self.rest and len(self.sent) < 4:
            self.rest = b"".join(self.make_request() for _ in range(draw.choice((1, 1, 2, 3))))
        if self.rest:
            size = len(self.rest) if draw.random() < 0.5 else draw.randint(1, len(self.rest))
            piece, self.rest = self.rest[:size], self.rest[size:]
            self.caller.send_bytes(piece)


def acknowledge(client: Client, responses: list[bytes], stored: Stored) -> None:
    """Note where the batches of the oldest requests are; each must have been appended."""
    for frame in responses:
        contents = client.sent.pop(0)
        if not contents:
            continue
        response = decoded(frame, 0, PRODUCE_VERSION)
        for topic in response.responses:
            for partition in topic.partition_responses:
                assert partition.error_code == 0, ErrorCode(partition.error_code).name
                records = contents[topic.name, partition.index]
                stored.setdefault((topic.name, partition.index), []).append(
                    (partition.base_offset, [(record.key, record.value) for record in records])
                )


def read_all(here: NodeHere, topic: str, partition: int) -> list[tuple[int, RecordBatch]]:
    """All batches of a partition, whose checksums are right."""
    caller = here.caller()
    batches: list[tuple[int, RecordBatch]] = []
    offset = 0
    while True:
        part = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=4_000_000
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 30,
            topics=[FetchTopic(topic=topic, partitions=[part])],
        )
        response = here.call(caller, request, 11)
        (data,) = response.responses[0].partitions
        assert data.error_code == 0
        if not data.records:
            caller.close()
            return batches
        for batch in iterate_batches(memoryview(bytes(data.records)), allow_partial=True):
            batches.append((batch.base_offset, batch))
            offset = batch.last_offset + 1


@pytest.mark.parametrize("seed", range(4))
def test_requests_of_all_sizes_beside_waiting_ones_are_stored_as_they_were_sent(
    here: NodeHere, seed: int
) -> None:
    draw = random.Random(seed)
    clients = [Client(here, number, draw) for number in range(CLIENTS)]
    stored: Stored = {}
    for _ in range(ROUNDS):
        # Several clients send before the node has its turn, so that frames arrive whole.
        for client in draw.sample(clients, draw.randint(1, CLIENTS)):
            client.step()
        here.turn()
        for client in clients:
            acknowledge(client, client.caller.frames(), stored)

    def is_done() -> bool:
        for client in clients:
            piece, client.rest = client.rest, b""
            if piece:
                client.caller.send_bytes(piece)
            acknowledge(client, client.caller.frames(), stored)
            assert not client.caller.is_closed
        return not any(client.sent for client in clients)

    here.until(is_done, "requests have no response")
    assert sum(map(len, stored.values())) > ROUNDS
    for (topic, partition), batches in stored.items():
        read = dict(read_all(here, topic, partition))
        assert sorted(read) == sorted(offset for offset, _ in batches)
        for offset, contents in batches:
            records = [(record.key, record.value) for record in decode_records(read[offset])]
            assert records == contents, f"{topic}-{partition} at offset {offset}"
    assert here.server.scratch.taken_count == 0
    assert here.server.frame_memory.held_bytes == 0


def test_more_waiting_requests_than_scratch_buffers_are_stored_as_they_were_sent(
    here: NodeHere,
) -> None:
    draw = random.Random(0)
    clients = []
    stored: Stored = {}
    for number in range(TAKEN_MAX + 20):
        clients.append(Client(here, number % 26, draw))
        here.turn()  # it accepts
    for client in clients:
        records = [
            Record(b"k", f"{id(client)}-{number}".encode() * 2, timestamp_ms=1)
            for number in range(600)
        ]
        client.sent.append({("compacted", 0): records})
        client.caller.send_bytes(
            framed(produce_to([("compacted", 0, build_batch(records))]), PRODUCE_VERSION, 0)
        )
    taken_max = 0

    def is_done() -> bool:
        nonlocal taken_max
        taken_max = max(taken_max, here.server.scratch.taken_count)
        for client in clients:
            acknowledge(client, client.caller.frames(), stored)
        return not any(client.sent for client in clients)

    here.until(is_done, "requests have no response")
    assert 0 < taken_max <= TAKEN_MAX
    read = dict(read_all(here, "compacted", 0))
    for offset, contents in stored["compacted", 0]:
        assert [(record.key, record.value) for record in decode_records(read[offset])] == contents
    assert here.server.scratch.taken_count == 0


@pytest.mark.parametrize("frame_bytes", [2_000, SMALL_FRAME_BYTES - 50, 80_000, 200_000])
def test_first_batch_of_a_transaction_is_stored_as_it_was_sent(
    here: NodeHere, frame_bytes: int
) -> None:
    """It waits for the coordinator while other clients send."""
    caller, other = here.caller(), here.caller()
    init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])
    here.until(lambda: here.call(caller, find, 4).coordinators[0].error_code == 0, "no coordinator")
    producer: list[Any] = []

    def has_id() -> bool:
        producer[:] = [here.call(caller, init, 4)]
        return bool(producer[0].error_code == 0)

    here.until(has_id, "no producer id")
    value = b"v" * ((frame_bytes - 200) // 10)
    records = [Record(b"key", value, timestamp_ms=1) for _ in range(10)]
    batch = build_batch(
        records,
        producer_id=producer[0].producer_id,
        producer_epoch=producer[0].producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    request = produce_to([("plain", 0, batch)], transactional_id="t")
    caller.send_bytes(framed(request, 12, 0))
    noise = MetadataRequest(
        topics=[MetadataRequestTopic(name="n" * 200) for _ in range(300)],
        allow_auto_topic_creation=False,
    )
    other.send_bytes(b"".join(framed(noise, 9, number) for number in range(20)))
    responses: list[bytes] = []

    def has_come() -> bool:
        responses.extend(caller.frames())
        return bool(responses)

    here.until(has_come, "no response")
    ((_, stored),) = read_all(here, "plain", 0)
    assert [(record.key, record.value) for record in decode_records(stored)] == [
        (record.key, record.value) for record in records
    ]
