"""A node that follows another broker, with a test in the place of the controller.

The node is a cluster of its own; the leading broker is registered there too, so that the node finds
its address as it would in one cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from odradek.broker.node.node import Node
from odradek.broker.replication.partition import Partition
from odradek.controller.control_requests import (
    ControlRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
)
from odradek.controller.image import PartitionState
from tests.support.node_thread import RunningNode, node_in_thread
from tests.support.scripted_follower import FOLLOWER, LEADER, registration

PATIENCE_S: Final = 60.0


class FollowingNode:
    """Broker 1, which follows broker 0."""

    def __init__(self, running: RunningNode) -> None:
        self.running = running

    def know_leader(self, address: str) -> None:
        """Register broker 0 with this address."""
        port = int(address.rpartition(":")[2])

        def register(node: Node) -> None:
            session = node._coordination.connect(lambda event: None)
            session.create("/brokers/ids/0", registration(port, "near"), ephemeral=True)

        self.running.call(register)
        self.until(lambda node: LEADER in node.parts.metadata.image.brokers, "broker 0 is known")

    def until(self, condition: Callable[[Node], Any], what: str) -> None:
        """Wait until the condition is true on the node's thread."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.running.call(condition):
            assert time.monotonic() < deadline, what

    def send_state(
        self,
        topic: str,
        topic_id: UUID,
        leader_epoch: int,
        *,
        leader: int = LEADER,
        partitions: int = 1,
        is_new: bool = True,
    ) -> None:
        """A LeaderAndIsr as a controller sends it."""
        states = tuple(
            LeaderAndIsrPartition(
                topic=topic,
                topic_id=topic_id,
                partition=index,
                state=PartitionState(leader, leader_epoch, (LEADER, FOLLOWER), leader_epoch, 1),
                replicas=(LEADER, FOLLOWER),
                adding=(),
                removing=(),
                is_new=is_new,
            )
            for index in range(partitions)
        )
        self.apply(LeaderAndIsr(FOLLOWER, 1, -1, states, ()))

    def stop_replica(self, topic: str, *, is_deleted: bool) -> None:
        """A StopReplica as a controller sends it."""
        partition = StopReplicaPartition(topic, 0, -1, is_deleted)
        self.apply(StopReplica(FOLLOWER, 1, -1, (partition,)))

    def apply(self, request: ControlRequest) -> None:
        """Apply it; no partition may be refused."""
        pending = self.running.call(lambda node: node.parts.leadership.apply(request))
        self.until(lambda node: pending.is_done, "the request is applied")
        assert pending.result().partition_errors == {}

    def partition(self, topic: str, index: int = 0) -> Partition:
        """The replica; look at it through `running.call` only."""
        return self.running.call(lambda node: node.parts.partitions.held(topic, index))

    def until_ends(self, topic: str, expected: tuple[int, int, int], index: int = 0) -> None:
        """Wait until `ends` is this."""
        deadline = time.monotonic() + PATIENCE_S
        while (ends := self.ends(topic, index)) != expected:
            assert time.monotonic() < deadline, f"{topic}-{index} is {ends}, not {expected}"

    def ends(self, topic: str, index: int = 0) -> tuple[int, int, int]:
        """(log start offset, high watermark, log end offset)."""
        log = self.partition(topic, index).log
        return self.running.call(
            lambda node: (log.log_start_offset, log.high_watermark, log.end_offset)
        )


@contextmanager
def following_node(
    folder: Path, leader_address: str, overrides: Mapping[str, str] | None = None
) -> Iterator[FollowingNode]:
    """Broker 1 in a thread, which knows the address of broker 0."""
    settings = {"broker.id": "1", "replica.fetch.backoff.ms": "100", **(overrides or {})}
    with node_in_thread(folder, settings) as running:
        node = FollowingNode(running)
        node.know_leader(leader_address)
        yield node
