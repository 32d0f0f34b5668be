"""librdkafka reads records twice after a leader epoch, although all brokers respond as they must.

The position of a consumer has an epoch E, and the records after it are of later epochs.  While
librdkafka validates the position (OffsetForLeaderEpoch of E), a fetch that was under way brings
records of a later epoch, and one more Metadata response has librdkafka take the position after them
for the one that it validates.  The response, the end offset of E, is below it: librdkafka takes the
log for truncated, and seeks to the end of E.

A consumer of a group begins with an epoch, the one that ListOffsets has returned; a run with one
`nonmonotonic poll` of it shows no error of a broker as such.  When this test fails, librdkafka has
been mended, and such a poll is an anomaly again; that is why it is slow, which `make test` leaves
out: it is about the version of a library.
Source: librdkafka 2.16, rd_kafka_toppar_leader_update, rd_kafka_toppar_handle_OffsetForLeaderEpoch.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.support.peer import Peer

TOPIC: Final = "t"
BROKERS: Final = 4
"""Each leads the partition of its number; what happens is in that of broker 0."""
WAIT_S: Final = 60.0
COUNT: Final = 3
"""Records of an epoch."""
VERSIONS: Final = ((0, 3, 8), (1, 4, 11), (3, 0, 9), (10, 0, 2), (18, 0, 3), (23, 2, 3))
"""(API key, lowest, highest) of what is served, and of Produce: a client asks for both to fetch."""
EPOCH_POSITION: Final = 12
ENDS: Final = {1: COUNT, 2: 2 * COUNT, 3: 2 * COUNT}
"""The end offsets of the leader epochs; nothing was appended in the last one."""


def records_of(epoch: int) -> bytes:
    """The batch of an epoch."""
    first = (epoch - 1) * COUNT
    now_ms = int(time.time() * 1000)
    batch = build_batch([Record(None, b"value", timestamp_ms=now_ms)] * COUNT)
    struct.pack_into(">q", batch, 0, first)
    struct.pack_into(">i", batch, EPOCH_POSITION, epoch)
    return bytes(batch)


class Brokers:
    """Brokers that respond as Kafka's do; the leader epoch is raised at the worst times."""

    def __init__(self) -> None:
        self.listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(BROKERS)]
        self.epoch = 1
        self.validated: list[tuple[int, int]] = []
        """(epoch, end offset) of each response to OffsetForLeaderEpoch."""
        self.read = 0
        """How many records the consumer has."""
        self._metadata = 0
        self._changed = threading.Condition()

    @property
    def addresses(self) -> list[str]:
        """Of all brokers."""
        return [f"127.0.0.1:{listener.getsockname()[1]}" for listener in self.listening]

    def note_read(self, count: int) -> None:
        """The consumer has so many records."""
        with self._changed:
            self.read = count
            self._changed.notify_all()

    def serve(self, number: int) -> None:
        """Accept connections until the socket is closed."""
        with suppress(OSError):
            while True:
                peer = Peer(self.listening[number].accept()[0])
                threading.Thread(target=self._talk, args=(number, peer), daemon=True).start()

    def _talk(self, number: int, peer: Peer) -> None:
        with suppress(OSError, EOFError):
            while True:
                header, request = peer.receive()
                if number == 0 and isinstance(request, FetchRequest) and request.topics:
                    self._fetch(peer, header, request)
                else:
                    self._respond(number, peer, header, request)

    def _fetch(self, peer: Peer, header: RequestHeader, request: FetchRequest) -> None:
        """Of the partition whose epoch changes."""
        (partition,) = request.topics[0].partitions
        if partition.current_leader_epoch < self.epoch:
            self._send(peer, header, 0, error=ErrorCode.FENCED_LEADER_EPOCH)
        elif partition.fetch_offset == 0:
            self._send(peer, header, 0, records_of(1))
            # A move of replicas begins; the position is validated, and stays in epoch 1.
            self.epoch = 2
        elif partition.fetch_offset == COUNT and self.epoch == 2:
            # The response is on its way, with records of epoch 2, when the move ends.
            self.epoch = 3
            self._send_while_validating(peer, header)
        else:
            is_below = partition.fetch_offset < ENDS[self.epoch]
            self._send(peer, header, 0, records_of(2) if is_below else b"")

    def _send_while_validating(self, peer: Peer, header: RequestHeader) -> None:
        """The records of epoch 2 arrive after the client has begun to validate its position, and
        Metadata responses after them."""
        waiting: list[tuple[RequestHeader, Any]] = []
        while not waiting or not isinstance(waiting[-1][1], OffsetForLeaderEpochRequest):
            waiting.append(peer.receive())
        self._send(peer, header, 0, records_of(2))
        with self._changed:
            assert self._changed.wait_for(lambda: self.read == 2 * COUNT, WAIT_S)
            # The second request comes after the response to the first one.
            goal = self._metadata + 2
            assert self._changed.wait_for(lambda: self._metadata >= goal, WAIT_S)
        for request_header, request in waiting:
            self._respond(0, peer, request_header, request)

    def _send(
        self,
        peer: Peer,
        header: RequestHeader,
        index: int,
        records: bytes = b"",
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        end = ENDS[self.epoch] if index == 0 else 0
        data = PartitionData(
            partition_index=index,
            error_code=error,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=None,
            records=memoryview(records),
        )
        topic = FetchableTopicResponse(topic=TOPIC, partitions=[data])
        peer.respond(header, FetchResponse(responses=[topic]))

    def _respond(self, number: int, peer: Peer, header: RequestHeader, request: Any) -> None:
        match request:
            case ApiVersionsRequest():
                keys = [
                    ApiVersion(api_key=key, min_version=least, max_version=most)
                    for key, least, most in VERSIONS
                ]
                peer.respond(header, ApiVersionsResponse(error_code=0, api_keys=keys))
            case MetadataRequest():
                peer.respond(header, self._metadata_response())
                with self._changed:
                    self._metadata += 1
                    self._changed.notify_all()
            case OffsetForLeaderEpochRequest():
                peer.respond(header, self._end_of_epoch(request))
            case FetchRequest() if request.topics:
                self._send(peer, header, number)
            case FetchRequest():
                peer.respond(header, FetchResponse(responses=[]))
            case FindCoordinatorRequest():
                code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                peer.respond(header, FindCoordinatorResponse(error_code=code, node_id=-1, port=-1))

    def _metadata_response(self) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=number, host="127.0.0.1", port=listener.getsockname()[1])
            for number, listener in enumerate(self.listening)
        ]
        partitions = [
            MetadataResponsePartition(
                error_code=0,
                partition_index=number,
                leader_id=number,
                leader_epoch=self.epoch if number == 0 else 0,
                replica_nodes=[number],
                isr_nodes=[number],
            )
            for number in range(BROKERS)
        ]
        topic = MetadataResponseTopic(error_code=0, name=TOPIC, partitions=partitions)
        return MetadataResponse(brokers=brokers, controller_id=0, topics=[topic])

    def _end_of_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        (partition,) = request.topics[0].partitions
        end = ENDS[partition.leader_epoch]
        self.validated.append((partition.leader_epoch, end))
        epoch_end = EpochEndOffset(
            error_code=0,
            partition=partition.partition,
            leader_epoch=partition.leader_epoch,
            end_offset=end,
        )
        topic = OffsetForLeaderTopicResult(topic=TOPIC, partitions=[epoch_end])
        return OffsetForLeaderEpochResponse(topics=[topic])


@contextmanager
def scripted_brokers() -> Iterator[Brokers]:
    """They serve while the block runs."""
    brokers = Brokers()
    for number in range(BROKERS):
        threading.Thread(target=brokers.serve, args=(number,), daemon=True).start()
    try:
        yield brokers
    finally:
        for listener in brokers.listening:
            listener.close()


@pytest.mark.slow
def test_librdkafka_reads_records_twice_that_arrive_while_it_validates_its_position() -> None:
    with scripted_brokers() as brokers:
        consumer = Consumer(
            {
                "bootstrap.servers": ",".join(brokers.addresses),
                "group.id": "readers",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 100,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(BROKERS)])
        offsets: list[int | None] = []
        deadline = time.monotonic() + WAIT_S
        while len(offsets) < 3 * COUNT:
            assert time.monotonic() < deadline, (offsets, brokers.validated)
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                offsets.append(message.offset())
                brokers.note_read(len(offsets))
        consumer.close()
    assert offsets == [*range(2 * COUNT), *range(COUNT, 2 * COUNT)]
