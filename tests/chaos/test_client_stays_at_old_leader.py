"""librdkafka sends a partition's records to a broker that does not lead it, for as long as nothing
changes, although all brokers tell it who does.

The leader changes twice, back to the broker that the partition is just leaving: the client has set
the next broker, but its thread for the old one has not let go of the partition yet.  The second
change finds the old broker in place and does nothing; then the partition goes to the broker of the
first change.  From then on librdkafka takes that one for a follower from which the application
reads, and stays there: 17 times a second it sends each partition's next request, which is refused,
until the leader changes again.

It needs two changes within the time that a thread of the client takes, as when brokers return and
preferred leaders are elected; a campaign in which a producer gets nothing through, while brokers
agree, shows no error of a broker if its log (`debug=topic`) has "not migrating away from preferred
replica" of that partition.  When this test fails, librdkafka has been mended; it is about the
version of a library, so `make test` leaves it out.
Source: librdkafka 2.16, rd_kafka_toppar_broker_update (which does not look at `rktp_next_broker`),
rd_kafka_toppar_leader_update.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.peer import Peer, response_frame

TOPIC: Final = "t"
PARTITIONS: Final = 40
"""One is enough, but which change the client sees in time is up to its threads."""
LEADER, OTHER = 0, 1
VERSIONS: Final = ((0, 3, 10), (1, 4, 11), (3, 0, 9), (18, 0, 3))
"""(API key, lowest, highest); Produce from 10 on names the leader in its response."""
WAIT_S: Final = 60.0
REFUSED: Final = 100
"""Requests for one partition: some six seconds, with 50 Metadata responses."""


class Brokers:
    """The first leads all partitions in epoch 1, the second in epoch 2, the first in epoch 3."""

    def __init__(self) -> None:
        self.listening = [socket.create_server(("127.0.0.1", 0)) for _ in (LEADER, OTHER)]
        self.refused: Counter[int] = Counter()
        """By partition: requests to the broker that does not lead it, in epoch 3."""
        self.changed = threading.Condition()
        self._epoch = 1

    @property
    def addresses(self) -> list[str]:
        """Of both brokers."""
        return [f"127.0.0.1:{listener.getsockname()[1]}" for listener in self.listening]

    def serve(self, number: int) -> None:
        """Accept connections until the socket is closed."""
        with suppress(OSError):
            while True:
                peer = Peer(self.listening[number].accept()[0])
                threading.Thread(target=self._talk, args=(number, peer), daemon=True).start()

    def _talk(self, number: int, peer: Peer) -> None:
        waiting: list[tuple[RequestHeader, int]] = []
        with suppress(OSError, EOFError):
            while True:
                header, request = peer.receive()
                if not isinstance(request, ProduceRequest):
                    self._respond(peer, header, request)
                    continue
                index = request.topic_data[0].partition_data[0].index
                if number == OTHER:
                    peer.respond(header, refusal(index, self._leader(LEADER), 3))
                    with self.changed:
                        self.refused[index] += 1
                        self.changed.notify_all()
                elif self._epoch == 1:
                    waiting.append((header, index))
                    if len(waiting) == 2 * PARTITIONS:
                        self._change_twice(peer, waiting)
                else:
                    peer.respond(header, response(index, ErrorCode.NONE))

    def _change_twice(self, peer: Peer, waiting: list[tuple[RequestHeader, int]]) -> None:
        """Refuse all at once: of each partition the first names the second broker, the next one
        the first."""
        frames = b""
        refused: set[int] = set()
        for header, index in waiting:
            leader, epoch = (LEADER, 3) if index in refused else (OTHER, 2)
            refused.add(index)
            frames += response_frame(header, refusal(index, self._leader(leader), epoch))
        self._epoch = 3
        peer.socket.sendall(frames)

    def _leader(self, number: int) -> NodeEndpoint:
        port = self.listening[number].getsockname()[1]
        return NodeEndpoint(node_id=number, host="127.0.0.1", port=port, rack=None)

    def _respond(self, peer: Peer, header: RequestHeader, request: Any) -> None:
        match request:
            case ApiVersionsRequest():
                keys = [
                    ApiVersion(api_key=key, min_version=least, max_version=most)
                    for key, least, most in VERSIONS
                ]
                peer.respond(header, ApiVersionsResponse(error_code=0, api_keys=keys))
            case MetadataRequest():
                peer.respond(header, self._metadata_response())

    def _metadata_response(self) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=number, host="127.0.0.1", port=listener.getsockname()[1])
            for number, listener in enumerate(self.listening)
        ]
        partitions = [
            MetadataResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=LEADER,
                leader_epoch=self._epoch,
                replica_nodes=[LEADER, OTHER],
                isr_nodes=[LEADER, OTHER],
            )
            for index in range(PARTITIONS)
        ]
        topic = MetadataResponseTopic(error_code=0, name=TOPIC, partitions=partitions)
        return MetadataResponse(brokers=brokers, controller_id=LEADER, topics=[topic])


def response(index: int, code: ErrorCode) -> ProduceResponse:
    """For one partition."""
    partition = PartitionProduceResponse(index=index, error_code=code, base_offset=-1)
    return ProduceResponse(
        responses=[TopicProduceResponse(name=TOPIC, partition_responses=[partition])]
    )


def refusal(index: int, leader: NodeEndpoint, epoch: int) -> ProduceResponse:
    """NOT_LEADER_OR_FOLLOWER, with the leader."""
    refused = response(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    (partition,) = refused.responses[0].partition_responses
    partition.current_leader = LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=epoch)
    refused.node_endpoints = [leader]
    return refused


@contextmanager
def scripted_brokers() -> Iterator[Brokers]:
    """They serve while the block runs."""
    brokers = Brokers()
    for number in (LEADER, OTHER):
        threading.Thread(target=brokers.serve, args=(number,), daemon=True).start()
    try:
        yield brokers
    finally:
        for listener in brokers.listening:
            listener.close()


@pytest.mark.slow
def test_librdkafka_stays_at_a_broker_that_refuses_a_partition() -> None:
    with scripted_brokers() as brokers:
        producer = Producer(
            {
                "bootstrap.servers": ",".join(brokers.addresses),
                "batch.num.messages": 1,
                "linger.ms": 0,
                "topic.metadata.refresh.interval.ms": 100,
                "message.timeout.ms": int(WAIT_S * 1000),
                "log_level": 0,
            }
        )
        for _ in range(2):
            for index in range(PARTITIONS):
                producer.produce(TOPIC, b"value", partition=index)
        with brokers.changed:
            stays = brokers.changed.wait_for(
                lambda: max(brokers.refused.values(), default=0) >= REFUSED, WAIT_S
            )
        producer.purge()
        producer.flush(WAIT_S)
    assert stays
