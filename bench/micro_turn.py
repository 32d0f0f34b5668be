"""Turns of a whole node in this process, for bench.micro: from a readable socket to the response in
the other end, system calls included."""

from __future__ import annotations

import asyncio
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from bench import wire
from bench.places import WORK
from odradek.broker.node.node import Node
from odradek.broker.settings.load import make_settings
from odradek.protocol.compiler import encoder
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Case = Callable[[], Any]
NOW_MS: Final = 1_700_000_000_000
TOPIC: Final = "a-topic-of-some-length"
PIPELINED: Final = 8


def _frame(key: int, version: int, request: Any) -> bytes:
    payload = encode_request_header(key, version, 1, "a-client")
    payload += encoder(type(request), version)(request)
    return struct.pack(">i", len(payload)) + payload


def _produce() -> bytes:
    data = PartitionProduceData(index=0, records=memoryview(wire.batch(bytes(100), NOW_MS)))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return _frame(0, 9, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]))


def _fetch() -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=200)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    return _frame(1, 11, FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=200, topics=topics))


def _metadata() -> bytes:
    return _frame(3, 9, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))


class _Turns:
    """A node, and a client whose requests are handled when a case is called."""

    def __init__(self, directory: str) -> None:
        self._loop = asyncio.new_event_loop()
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": directory,
            "num.partitions": "1",
        }
        self._node = Node(self._loop, make_settings(settings))
        self._node.start()
        self._client = socket.create_connection(("127.0.0.1", self._node.listeners[0].port))
        self._client.setblocking(False)
        while not self._node.server.connections:
            self._turn_loop()
        (self._session,) = self._node.server.connections
        self.run(_metadata(), 1)

    def _turn_loop(self) -> None:
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def run(self, content: bytes, responses: int) -> None:
        """Send requests and have them handled in one turn."""
        self._client.send(content)
        self._session._on_readable()
        received = 0
        while received < responses:
            try:
                data = memoryview(self._client.recv(1 << 16))
            except BlockingIOError:
                # Neighbours of the machine took the turn's slice.
                self._turn_loop()
                continue
            while data:
                (size,) = struct.unpack_from(">i", data)
                data = data[4 + size :]
                received += 1

    def close(self) -> None:
        """End."""
        self._client.close()
        self._loop.run_until_complete(self._node.stop())
        self._loop.close()


@contextmanager
def turn_cases() -> Iterator[list[tuple[str, Case]]]:
    """A started node; the end of the context stops it."""
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as directory:
        turns = _Turns(directory)
        produce, fetch, metadata = _produce(), _fetch(), _metadata()
        try:
            yield [
                ("turn of one produce of a 100 B record", lambda: turns.run(produce, 1)),
                (
                    f"turn of {PIPELINED} produces of a 100 B record",
                    lambda: turns.run(produce * PIPELINED, PIPELINED),
                ),
                ("turn of one fetch of a 100 B record", lambda: turns.run(fetch, 1)),
                ("turn of one metadata of a topic", lambda: turns.run(metadata, 1)),
            ]
        finally:
            turns.close()
