"""A client that asks for much and takes nothing must not fill the broker's memory."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.compiler import encoder
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.metadata import MetadataRequest
from tests.support.broker_process import GIVE_BACK, BrokerProcess, odradek_broker

MEBIBYTE = 1 << 20
METADATA = 3
TOPICS = 60
REQUESTS = 8_000
MEMORY_GROWTH_MAX = 48 * MEBIBYTE


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    overrides = {"num.partitions": "10"}
    with odradek_broker(tmp_path, overrides=overrides, environment=GIVE_BACK) as process:
        yield process


def request(correlation_id: int) -> bytes:
    header = encode_request_header(METADATA, 9, correlation_id, None)
    body = encoder(MetadataRequest, 9)(MetadataRequest(topics=None))
    return struct.pack(">i", len(header) + len(body)) + header + body


def read_response(connected: socket.socket) -> int:
    def read(size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += connected.recv(size - len(data))
        return data

    (size,) = struct.unpack(">i", read(4))
    (correlation_id,) = struct.unpack_from(">i", read(size))
    return int(correlation_id)


def test_thousand_pipelined_requests_get_their_responses_in_order(broker: BrokerProcess) -> None:
    host, _, port = broker.address.partition(":")
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = [NewTopic(f"topic-{number}", 10, 1) for number in range(TOPICS)]
    for made in admin.create_topics(topics, operation_timeout=120).values():
        made.result()
    before_bytes = broker.process.rss_bytes()
    with socket.create_connection((host, int(port))) as connected:
        connected.settimeout(60)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connected.sendall(b"".join(map(request, range(REQUESTS))))
        for correlation_id in range(200):
            assert read_response(connected) == correlation_id
        assert broker.process.rss_bytes() - before_bytes < MEMORY_GROWTH_MAX
