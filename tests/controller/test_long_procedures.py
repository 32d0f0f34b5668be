"""Procedures about thousands of partitions: the event loop serves its clients in between.

A turn of the loop is measured in function calls, of which Python makes some ten in a microsecond:
their number does not depend on the machine, nor on what else it does.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import FrameType

import pytest

from odradek.controller.active.partition_states import ControllerSettings
from odradek.controller.decide.topics import CreateTopicSpec
from tests.support.cluster import Cluster, Node

PARTITIONS = 1_500
CALLS_MAX = 15_000
"""Of one turn: 2 to 4 ms."""


class Turns:
    """The turns of an event loop that nodes share."""

    def __init__(self) -> None:
        self.deferred: deque[Callable[[], None]] = deque()
        self.lengths: list[int] = []
        """Function calls of each turn."""
        self._calls = 0

    def run(self, work: Callable[[], object]) -> None:
        """Run `work` in a turn, and what it defers in later ones."""
        self._measure(work)
        while self.deferred:
            self._measure(self.deferred.popleft())

    def _measure(self, work: Callable[[], object]) -> None:
        self._calls = 0
        former = sys.getprofile()
        sys.setprofile(self._count)
        try:
            work()
        finally:
            sys.setprofile(former)
        self.lengths.append(self._calls)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self._calls += 1


class ServedCluster(Cluster):
    """Brokers that serve clients: each delivery of a request is a turn of its own."""

    def __init__(self, settings: ControllerSettings) -> None:
        super().__init__(settings=settings)
        self.turns = Turns()

    def add(self, broker_id: int, *, rack: str | None = None, is_started: bool = True) -> Node:
        """Add a broker, and serve when it has started."""
        node = super().add(broker_id, rack=rack, is_started=is_started)
        node.controller.serve(self.turns.deferred.append)
        return node

    def kill(self, broker_id: int) -> None:
        """A broker dies and its session expires."""
        node = self.nodes.pop(broker_id)
        node.stop_hearing()
        session = node.session
        assert session is not None
        self.turns.run(lambda: self.tree.expire(session.session_id))
        self.settle()

    def settle(self) -> None:
        """Deliver all requests that are under way."""
        self.turns.run(lambda: None)
        while any(node.outbox for node in self.nodes.values()):
            self.turns.run(self.deliver_one)


def clusters() -> ServedCluster:
    """Three brokers, of which the first is the controller, and a topic of many partitions."""
    cluster = ServedCluster(ControllerSettings(partitions=PARTITIONS, replication_factor=2))
    for broker_id in (1, 2, 3):
        cluster.add(broker_id)
    cluster.turns.run(lambda: cluster.active.controller.admin.create_topic(CreateTopicSpec("many")))
    cluster.settle()
    return cluster


@pytest.fixture(name="cluster")
def cluster_with_many() -> ServedCluster:
    return clusters()


def check_leaders(cluster: ServedCluster) -> None:
    """Every partition has a leader that is alive, in the image of each broker."""
    for node in cluster.nodes.values():
        partitions = node.controller.image.topics["many"].partitions
        assert len(partitions) == PARTITIONS
        leaders = {
            partition.state.leader
            for partition in partitions.values()
            if partition.state is not None
        }
        assert leaders == set(cluster.nodes)


def test_first_leaders_of_a_topic_are_elected_in_many_turns(cluster: ServedCluster) -> None:
    check_leaders(cluster)
    # The request, and the znode that the controller reads, are one JSON document each.
    *others, reading, request = sorted(cluster.turns.lengths)
    assert max(others) < CALLS_MAX, (reading, request)


def test_leaders_of_a_dead_broker_are_replaced_in_many_turns(cluster: ServedCluster) -> None:
    cluster.turns.lengths.clear()
    cluster.kill(2)
    check_leaders(cluster)
    cluster.add(2)
    assert max(cluster.turns.lengths) < CALLS_MAX


def test_controller_takes_over_in_many_turns(cluster: ServedCluster) -> None:
    cluster.turns.lengths.clear()
    cluster.kill(1)
    check_leaders(cluster)
    assert cluster.active.controller.broker_id in (2, 3)
    *others, reading = sorted(cluster.turns.lengths)
    assert max(others) < CALLS_MAX, reading


def test_topic_is_deleted_in_many_turns(cluster: ServedCluster) -> None:
    cluster.turns.lengths.clear()
    admin = cluster.active.controller.admin
    cluster.turns.run(lambda: admin.delete_topic("many"))
    cluster.settle()
    assert not [path for path in cluster.tree.tree.nodes if "many" in path]
    for node in cluster.nodes.values():
        assert "many" not in node.controller.image.topics
        deleted = [
            partition
            for stop in node.stops()
            for partition in stop.partitions
            if partition.is_deleted
        ]
        assert len(deleted) == PARTITIONS * 2 // 3
    assert max(cluster.turns.lengths) < CALLS_MAX
