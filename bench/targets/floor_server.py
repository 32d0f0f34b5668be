"""The least that serves a consumer from an existing log directory: floor_server PORT DIRECTORY.

The broker's own codecs and the layout of its files, and nothing that a whole broker has besides:
one table of batches per partition, one send of the header and one sendfile of the whole slice.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from bisect import bisect_left
from pathlib import Path
from typing import Any

import uvloop

from odradek.protocol.api_keys import messages_of
from odradek.protocol.compiler import decoder, parts_encoder
from odradek.protocol.headers import decode_request_header, response_header_version
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.files.batch_scan import iterate_headers

SERVED = {0: (0, 7), 1: (4, 12), 2: (1, 5), 3: (0, 8), 18: (0, 3)}
"""API key to the versions that are listed, with names in place of topic ids.  Produce is not
served, but librdkafka fetches record batches of version 2 only from brokers that list it."""
EARLIEST = -2
REQUEST_BYTES = 1 << 16
HOST = os.environ.get("HOST", "127.0.0.1")
"""Where it listens."""


class Slice:
    """The records of a response, in a file."""

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor, self.position, self.size = descriptor, position, size

    def __len__(self) -> int:
        return self.size


class Partition:
    """One partition's batches, by offset."""

    def __init__(self, folder: Path) -> None:
        self.batches: list[tuple[int, int, int, int]] = []
        """(last offset, descriptor, position, size of the file)"""
        for path in sorted(folder.glob("*.log")):
            file = SystemFileSystem().open(str(path))
            size = os.fstat(file.fileno()).st_size
            for batch in iterate_headers(file, 0, size):
                self.batches.append((batch.last_offset, file.fileno(), batch.position, size))
        self.last_offsets = [batch[0] for batch in self.batches]
        self.end_offset = self.last_offsets[-1] + 1 if self.batches else 0

    def read(self, offset: int, max_bytes: int) -> Slice | None:
        number = bisect_left(self.last_offsets, offset)
        if number == len(self.batches):
            return None
        _, descriptor, position, size = self.batches[number]
        return Slice(descriptor, position, min(max_bytes, size - position))


class Server:
    """All partitions of a directory, and what is asked of them."""

    def __init__(self, port: int, directory: Path) -> None:
        self.port = port
        self.topics: dict[str, dict[int, Partition]] = {}
        for folder in sorted(directory.glob("*-*/")):
            name, _, index = folder.name.rpartition("-")
            self.topics.setdefault(name, {})[int(index)] = Partition(folder)
        self.wait_ms = 0
        """How long the response that was just made is to wait."""
        self.serve = {1: self.fetch, 2: self.list_offsets, 3: self.metadata, 18: self.api_versions}
        self.codecs: dict[tuple[int, int], tuple[Any, Any, int]] = {}

    def response(self, frame: memoryview) -> list[Any]:
        header, position = decode_request_header(frame, 0)
        key = header.api_key, header.version
        if key not in self.codecs:
            request, response = messages_of(header.api_key)
            shape = 4 + response_header_version(*key)
            self.codecs[key] = decoder(request, key[1]), parts_encoder(response, key[1]), shape
        decode, encode, head_bytes = self.codecs[key]
        parts: list[Any] = encode(self.serve[header.api_key](decode(frame, position)[0]))
        size = head_bytes + sum(map(len, parts))
        parts[0] = (
            size.to_bytes(4, "big")
            + header.correlation_id.to_bytes(4, "big").ljust(head_bytes, b"\0")
            + parts[0]
        )
        return parts

    def api_versions(self, _: Any) -> Any:
        rows = [
            ApiVersion(api_key=key, min_version=least, max_version=most)
            for key, (least, most) in SERVED.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=rows)

    def metadata(self, request: Any) -> Any:
        topics = [
            MetadataResponseTopic(
                error_code=0,
                name=name,
                partitions=[
                    MetadataResponsePartition(
                        error_code=0,
                        partition_index=index,
                        leader_id=0,
                        replica_nodes=[0],
                        isr_nodes=[0],
                    )
                    for index in partitions
                ],
            )
            for name, partitions in self.topics.items()
            if not request.topics or any(topic.name == name for topic in request.topics)
        ]
        broker = MetadataResponseBroker(node_id=0, host=HOST, port=self.port)
        return MetadataResponse(brokers=[broker], controller_id=0, topics=topics)

    def list_offsets(self, request: Any) -> Any:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=partition.partition_index,
                            error_code=0,
                            offset=0
                            if partition.timestamp_ms == EARLIEST
                            else self.topics[topic.name][partition.partition_index].end_offset,
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def fetch(self, request: Any) -> Any:
        responses = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                partition = self.topics[topic.topic][asked.partition]
                records = partition.read(asked.fetch_offset, asked.partition_max_bytes)
                partitions.append(
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=0,
                        high_watermark=partition.end_offset,
                        last_stable_offset=partition.end_offset,
                        log_start_offset=0,
                        records=b"" if records is None else records,
                    )
                )
            responses.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
            if not any(partition.records for partition in partitions):
                self.wait_ms = request.max_wait_ms
        return FetchResponse(responses=responses)


class Connection:
    """Requests in, responses out, in order."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, accepted: socket.socket):
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server, self.loop, self.socket = server, loop, accepted
        self.buffer = bytearray(REQUEST_BYTES)
        self.filled = 0
        self.is_blocked = False
        self.unsent: list[Any] = []
        loop.add_reader(accepted.fileno(), self.on_readable)

    def on_readable(self) -> None:
        try:
            count = self.socket.recv_into(memoryview(self.buffer)[self.filled :])
        except ConnectionError:
            count = 0
        if count == 0:
            self.close()
            return
        self.filled += count
        at = 0
        with memoryview(self.buffer) as view:
            while self.filled - at >= 4:
                end = at + 4 + int.from_bytes(view[at : at + 4], "big")
                if end > self.filled:
                    break
                parts = self.server.response(view[at + 4 : end])
                at = end
                if self.server.wait_ms:
                    wait_s, self.server.wait_ms = self.server.wait_ms / 1_000, 0
                    self.loop.call_later(wait_s, self.respond, parts)
                else:
                    self.unsent += parts
        self.buffer[: self.filled - at] = self.buffer[at : self.filled]
        self.filled -= at
        self.send()

    def respond(self, parts: list[Any]) -> None:
        if self.socket.fileno() >= 0:
            self.unsent += parts
            self.send()

    def send(self) -> None:
        unsent = self.unsent
        try:
            while unsent:
                part = unsent[0]
                if isinstance(part, Slice):
                    sent = os.sendfile(
                        self.socket.fileno(), part.descriptor, part.position, part.size
                    )
                    part.position += sent
                    part.size -= sent
                    if not part.size:
                        del unsent[0]
                else:
                    more = socket.MSG_MORE if len(unsent) > 1 else 0
                    sent = self.socket.send(part, more)
                    if sent == len(part):
                        del unsent[0]
                    else:
                        unsent[0] = part[sent:]
            if self.is_blocked:
                self.is_blocked = False
                self.loop.remove_writer(self.socket.fileno())
        except BlockingIOError:
            if not self.is_blocked:
                self.is_blocked = True
                self.loop.add_writer(self.socket.fileno(), self.send)
        except ConnectionError:
            self.close()

    def close(self) -> None:
        self.unsent.clear()
        if self.socket.fileno() >= 0:
            self.loop.remove_reader(self.socket.fileno())
            self.loop.remove_writer(self.socket.fileno())
            self.socket.close()


def main() -> None:
    """Serves until it is ended."""
    port, directory = int(sys.argv[1]), Path(sys.argv[2])
    server = Server(port, directory)
    loop = uvloop.new_event_loop()
    listener = socket.create_server((HOST, port))
    loop.add_reader(listener.fileno(), lambda: Connection(server, loop, listener.accept()[0]))
    loop.run_forever()


if __name__ == "__main__":
    main()
