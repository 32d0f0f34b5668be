"""The least of Kafka's protocol that a harness needs, over one blocking socket.

Written by hand and apart from the broker's own codec: it must measure any broker alike, and start
in no time.  Only fixed, old, not flexible versions that all measured brokers serve.
"""

from __future__ import annotations

import socket
import struct
import time

import crc32c

PRODUCE, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 3, 18, 19, 20
ERROR_NONE, ERROR_UNKNOWN_TOPIC, ERROR_TOPIC_EXISTS = 0, 3, 36
REQUEST_TIMEOUT_MS = 60_000


class WireError(Exception):
    """The broker answered with an error code."""


def string(text: str | None) -> bytes:
    """A nullable string with its length in 16 bits."""
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class Reader:
    """Walks over a response."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def take(self, form: str) -> tuple[int, ...]:
        """The next fixed fields, big-endian, by struct's letters."""
        values = struct.unpack_from(">" + form, self.data, self.position)
        self.position += struct.calcsize(">" + form)
        return values

    def string(self) -> str | None:
        """The next nullable string."""
        (length,) = self.take("h")
        if length < 0:
            return None
        start, self.position = self.position, self.position + length
        return self.data[start : self.position].decode()

    def numbers(self) -> list[int]:
        """The next array of 32-bit numbers."""
        (count,) = self.take("i")
        return list(self.take(f"{count}i"))


class Connection:
    """One request at a time."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 90.0) -> None:
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)

    def request(self, api_key: int, version: int, body: bytes) -> Reader:
        """Sends a request and returns its response after the correlation id."""
        self.correlation_id += 1
        head = struct.pack(">hhi", api_key, version, self.correlation_id) + string("bench")
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (length,) = struct.unpack(">i", self._receive(4))
        reader = Reader(self._receive(length))
        (answered,) = reader.take("i")
        assert answered == self.correlation_id, "responses arrive in order"
        return reader


def metadata(
    connection: Connection, topic: str | None, *, create: bool = False
) -> tuple[int, dict[int, int]]:
    """How many brokers there are, and the error code of each partition of the topic.

    A topic that has an error itself appears as partition -1.
    """
    names = struct.pack(">i", 1) + string(topic) if topic else struct.pack(">i", 0)
    reader = connection.request(METADATA, 4, names + bytes([create]))
    reader.take("i")
    (brokers,) = reader.take("i")
    for _ in range(brokers):
        reader.take("i")
        reader.string()
        reader.take("i")
        reader.string()
    reader.string()
    reader.take("i")
    errors: dict[int, int] = {}
    (topics,) = reader.take("i")
    for _ in range(topics):
        (error,) = reader.take("h")
        reader.string()
        _, partitions = reader.take("bi")
        if error:
            errors[-1] = error
        for _ in range(partitions):
            partition_error, index, leader = reader.take("hii")
            errors[index] = partition_error or (0 if leader >= 0 else 5)
            reader.numbers()
            reader.numbers()
    return brokers, errors


def _topic_error(reader: Reader, *, with_message: bool) -> tuple[int, str]:
    reader.take("ii")
    reader.string()
    (error,) = reader.take("h")
    return error, (reader.string() or "") if with_message else ""


def create_topic(
    connection: Connection, name: str, partitions: int, settings: dict[str, str] | None = None
) -> None:
    """Creates a topic of one replica and waits until every partition has a leader."""
    body = struct.pack(">i", 1) + string(name) + struct.pack(">ihi", partitions, 1, 0)
    body += struct.pack(">i", len(settings or {}))
    for key, value in (settings or {}).items():
        body += string(key) + string(value)
    body += struct.pack(">ib", REQUEST_TIMEOUT_MS, 0)
    error, message = _topic_error(connection.request(CREATE_TOPICS, 4, body), with_message=True)
    if error not in (ERROR_NONE, ERROR_TOPIC_EXISTS):
        raise WireError(f"creating {name}: code {error} {message}")
    wait_for_leaders(connection, name, partitions)


def wait_for_leaders(connection: Connection, name: str, partitions: int) -> None:
    """Returns as soon as the metadata name a leader for each partition."""
    end_s = time.monotonic() + REQUEST_TIMEOUT_MS / 1000
    while True:
        errors = metadata(connection, name)[1]
        if len(errors) == partitions and not any(errors.values()):
            return
        if time.monotonic() > end_s:
            raise WireError(f"{name}: no leaders, codes {sorted(set(errors.values()))}")
        time.sleep(0.005)


def delete_topic(connection: Connection, name: str) -> None:
    """Asks for the deletion; files may live on for a while."""
    body = struct.pack(">i", 1) + string(name) + struct.pack(">i", REQUEST_TIMEOUT_MS)
    error, _ = _topic_error(connection.request(DELETE_TOPICS, 2, body), with_message=False)
    if error not in (ERROR_NONE, ERROR_UNKNOWN_TOPIC):
        raise WireError(f"deleting {name}: code {error}")


def batch(value: bytes, timestamp_ms: int) -> bytes:
    """A record batch of format 2 with one record without key."""
    assert len(value) < 8000, "the lengths below take two bytes at most"

    def varint(number: int) -> bytes:
        zigzag = number << 1
        return bytes([zigzag]) if zigzag < 128 else bytes([zigzag & 127 | 128, zigzag >> 7])

    body = b"\x00\x00\x00\x01" + varint(len(value)) + value + b"\x00"
    record = varint(len(body)) + body
    tail = struct.pack(">hiqqqhii", 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail


def produce(connection: Connection, topic: str, value: bytes, *, partition: int = 0) -> int:
    """Writes one record with acks=1 and returns the error code."""
    records = batch(value, time.time_ns() // 1_000_000)
    body = struct.pack(">hhii", -1, 1, 30_000, 1) + string(topic)
    body += struct.pack(">iii", 1, partition, len(records)) + records
    reader = connection.request(PRODUCE, 7, body)
    reader.take("i")
    reader.string()
    reader.take("ii")
    (error,) = reader.take("h")
    return error


def api_versions(connection: Connection) -> int:
    """The oldest request that there is; returns the error code."""
    return connection.request(API_VERSIONS, 0, b"").take("h")[0]
