"""A controller that moves a partition to itself alone is stopped before the replicas that it
removes have left the in-sync replicas: one of them is elected meanwhile.

When the former controller goes on, it leads in an epoch that has passed until it learns that.  What
it acknowledges then must be there afterwards.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event, Thread
from time import monotonic
from typing import Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.cluster.reassigning import wait_for_moves
from tests.cluster.replicas import log_bytes
from tests.scripts.chapters.batches import batch, produce_request
from tests.support.broker_cluster import BrokerCluster, broker_cluster
from tests.support.wire import Wire

TOPIC: Final = "moved"
CONTROLLER: Final = 1
OTHERS: Final = (2, 3)
WAIT_S: Final = 60.0
PRODUCE_VERSION: Final = 9
TIMEOUT_MS: Final = 2_000
RECORDS_POSITION: Final = 61
"""In a batch: a leader changes only what is before it."""
STATE: Final = re.compile(rb'"leader":%d,[^}]*"isr":\[([0-9,]+)\]' % CONTROLLER)


class ZooKeeperLink:
    """The way of one broker to ZooKeeper, which ends at the first state that removes a replica.

    What comes after it on the same connection is not delivered either; connections that are opened
    later are.
    """

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.has_ended = Event()
        Thread(target=self._accept, name="link", daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                broker = self._listener.accept()[0]
                server = socket.create_connection(self._target)
                for work in (self._deliver_requests, self._deliver_responses):
                    Thread(target=work, args=(broker, server), daemon=True).start()

    def _deliver_requests(self, broker: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), broker.makefile("rb") as requests:
            while header := requests.read(4):
                frame = header + requests.read(*struct.unpack(">i", header))
                if not self.has_ended.is_set() and any(map(_is_removal, STATE.findall(frame))):
                    self.has_ended.set()
                    return
                server.sendall(frame)
            server.shutdown(socket.SHUT_WR)

    def _deliver_responses(self, broker: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while content := server.recv(65_536):
                broker.sendall(content)
            broker.shutdown(socket.SHUT_RDWR)


def _is_removal(in_sync: bytes) -> bool:
    return len(in_sync.split(b",")) <= len(OTHERS)


@pytest.fixture
def link(ensemble: str) -> Iterator[ZooKeeperLink]:
    """That of the controller."""
    opened_link = ZooKeeperLink(ensemble)
    yield opened_link
    opened_link.close()


@contextmanager
def cluster_on(
    ensemble: str, link: ZooKeeperLink, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Three brokers, of which `CONTROLLER` is the controller."""
    folder = tmp_path_factory.mktemp("cluster")
    with broker_cluster(
        folder,
        zookeeper_connect=f"{ensemble}/{folder.name}",
        of_broker={CONTROLLER: {"zookeeper.connect": f"{link.address}/{folder.name}"}},
        controller=CONTROLLER,
    ) as cluster:
        yield cluster


def test_what_the_leader_of_a_past_epoch_acknowledges_after_a_stop_is_not_lost(
    ensemble: str, link: ZooKeeperLink, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with cluster_on(ensemble, link, tmp_path_factory) as cluster:
        cluster.create_topic(TOPIC, assignment={0: [*OTHERS, CONTROLLER]})
        partition = ReassignablePartition(partition_index=0, replicas=[CONTROLLER])
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=TOPIC, partitions=[partition])]
        )
        with Wire(cluster.brokers[CONTROLLER].address) as wire:
            wire.send(request, 0)
            assert link.has_ended.wait(WAIT_S), "no replica is removed"
            cluster.pause(CONTROLLER)
        cluster.running.remove(CONTROLLER)
        first = cluster.partitions(TOPIC, of=OTHERS[0])[0].leader_epoch
        cluster.wait(lambda: _leads_since(cluster, first), "another leader")
        acknowledged = acknowledged_when_it_goes_on(cluster)
        cluster.running = sorted([*OTHERS, CONTROLLER])
        cluster.wait_for_brokers()
        wait_for_moves(cluster, TOPIC, {0: [CONTROLLER]})
        former = cluster.brokers[CONTROLLER]
        assert acknowledged in log_bytes(former.data / f"{TOPIC}-0")
        lines = "\n".join(former.process.lines())
    assert "truncated to offset 0" in lines, "it has appended in the past epoch"


def _leads_since(cluster: BrokerCluster, epoch: int) -> bool:
    (state,) = cluster.partitions(TOPIC, of=OTHERS[0]).values()
    return state.leader_id in OTHERS and state.leader_epoch > epoch


def acknowledged_when_it_goes_on(cluster: BrokerCluster) -> bytes:
    """Let the former controller go on, and send records until it acknowledges some; these.

    The first ones are there when it goes on: it finds them before it learns of another leader.
    """
    numbers, deadline = count(), monotonic() + WAIT_S
    with Wire(cluster.brokers[CONTROLLER].address) as wire:
        sent = send(wire, next(numbers))
        cluster.resume(CONTROLLER)
        while monotonic() < deadline:
            (topic,) = wire.receive(0, PRODUCE_VERSION).responses
            if topic.partition_responses[0].error_code == ErrorCode.NONE:
                return bytes(sent[RECORDS_POSITION:])
            sent = send(wire, next(numbers))
    raise AssertionError("nothing is acknowledged")


def send(wire: Wire, number: int) -> bytearray:
    """Send a batch of its own without waiting; the batch."""
    sent = batch(1, first=number)
    wire.send(produce_request(TOPIC, sent, acks=-1, timeout_ms=TIMEOUT_MS), PRODUCE_VERSION)
    return sent
