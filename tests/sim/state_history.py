"""The znodes that decide who leads, as they are written: each change against the one before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from odradek.controller.coordination.session import Create, SetData, ZkOperation
from odradek.controller.coordination.tree import Tree
from odradek.controller.znodes.zk_data import (
    BROKER_TOPICS,
    CONTROLLER_EPOCH,
    PartitionStateZnode,
    TopicAssignmentZnode,
)
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.world import World

STATE: Final = "/state"
NO_LEADER: Final = -1


class StateHistory:
    """The states of all partitions, and the controller epoch."""

    def __init__(self, world: World, tree: Tree) -> None:
        self._world = world
        self._tree = tree
        self._states: dict[str, PartitionStateZnode] = {}
        """As they were written last."""
        self._controller_epoch = 0
        self.on_in_sync: Callable[[TopicPartition, int, PartitionStateZnode], None] | None = None
        """Called with each replica that has come into sync, and the state that says so."""
        self.on_changed: Callable[[TopicPartition, PartitionStateZnode], None] | None = None
        """Called with each state that follows another one."""

    @property
    def states(self) -> Mapping[str, PartitionStateZnode]:
        """By path."""
        return self._states

    def on_written(self, operation: ZkOperation) -> None:
        """An operation of a transaction that the service has carried out."""
        if not isinstance(operation, Create | SetData):
            return
        path, data = operation.path, operation.data
        if path == CONTROLLER_EPOCH:
            self._on_controller_epoch(int(data or b"0"))
        elif path.endswith(STATE):
            assert data is not None, "states have data"
            self._on_state(path, PartitionStateZnode.decode(data))

    def _on_controller_epoch(self, epoch: int) -> None:
        if epoch < self._controller_epoch:
            self._world.fail(f"the controller epoch falls from {self._controller_epoch} to {epoch}")
        self._controller_epoch = epoch

    def _on_state(self, path: str, state: PartitionStateZnode) -> None:
        fail = self._world.fail
        newest = int(self._tree.nodes[CONTROLLER_EPOCH].data or b"0")
        if state.controller_epoch != newest:
            fail(f"{path}: {state} is written in controller epoch {newest}")
        _, _, _, topic, _, partition, _ = path.split("/")
        key = TopicPartition(topic, int(partition))
        self._check_replicas(path, key, state)
        former = self._states.get(path)
        self._states[path] = state
        if former is None:
            return
        if state.leader_epoch < former.leader_epoch:
            fail(f"{path}: the leader epoch falls from {former} to {state}")
        if state.leader not in (former.leader, NO_LEADER):
            if state.leader_epoch == former.leader_epoch:
                fail(f"{path}: another leader in the same leader epoch: {former}, then {state}")
            if state.leader not in former.isr:
                fail(f"{path}: a leader that was not in sync: {former}, then {state}")
        if self.on_in_sync is not None:
            for broker_id in state.isr:
                if broker_id not in former.isr:
                    self.on_in_sync(key, broker_id, state)
        if self.on_changed is not None:
            self.on_changed(key, state)

    def _check_replicas(self, path: str, key: TopicPartition, state: PartitionStateZnode) -> None:
        fail = self._world.fail
        if not state.isr:
            fail(f"{path}: no replica is in sync: {state}")
        if len(set(state.isr)) < len(state.isr):
            fail(f"{path}: a replica is in sync twice: {state}")
        if state.leader not in (*state.isr, NO_LEADER):
            fail(f"{path}: the leader is not in sync: {state}")
        topic = self._tree.nodes.get(f"{BROKER_TOPICS}/{key.topic}")
        if topic is None:
            return
        assigned = TopicAssignmentZnode.decode(topic.data).partitions.get(key.partition, ())
        if not set(state.isr) <= set(assigned):
            fail(f"{path}: in sync by {state}, and assigned are {assigned}")
