"""Topics that are created and deleted, and reassignments, while a simulation runs.

They are written into the coordination service, as Kafka's tools once did: whichever broker is the
active controller, or becomes it, has to carry them out.
"""

from __future__ import annotations

from uuid import UUID

from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.coordination.session import Create
from odradek.controller.znodes.admin_znodes import REASSIGN_PARTITIONS, encode_reassignments
from odradek.controller.znodes.zk_data import BROKER_TOPICS, DELETE_TOPICS, TopicAssignmentZnode
from odradek.protocol.topic_partition import TopicPartition
from tests.sim.ensemble import Ensemble, decoded_assignment
from tests.sim.oracle import Oracle
from tests.sim.plan import BROKERS
from tests.sim.world import World


class Administration:
    """What was asked for, and whether it was done."""

    def __init__(
        self, world: World, ensemble: Ensemble, oracle: Oracle, keys: list[TopicPartition]
    ) -> None:
        """keys  partitions that last, and may be reassigned"""
        self._world = world
        self._ensemble = ensemble
        self._oracle = oracle
        self._keys = keys
        self.kept: list[TopicPartition] = []
        """Of topics that were created here, and not deleted."""
        self._deleted: list[TopicPartition] = []

    def _write(self, path: str, data: bytes | None) -> bool:
        try:
            self._ensemble.write(Create(path, data))
        except CoordinationError:
            return False
        return True

    def create_topic(self, number: int, length_ms: int) -> None:
        """A topic of one partition, which is deleted after a while."""
        key = TopicPartition(f"short-{len(self.kept) + len(self._deleted)}", 0)
        brokers = [1 + (number + shift) % BROKERS for shift in range(BROKERS)]
        znode = TopicAssignmentZnode(UUID(int=1_000 + number), {0: tuple(brokers)}, {}, {})
        if not self._write(f"{BROKER_TOPICS}/{key.topic}", znode.encode()):
            return
        self._world.note(f"{key.topic} is created on {brokers}")
        self._world.counts["topic"] += 1
        self.kept.append(key)

        def delete() -> None:
            if not self._world.is_calm and self._write(f"{DELETE_TOPICS}/{key.topic}", None):
                self._world.note(f"{key.topic} is deleted")
                self._world.counts["deletion"] += 1
                self.kept.remove(key)
                self._deleted.append(key)

        self._world.after(length_ms * 1_000, delete)

    def reassign(self, number: int, length_ms: int) -> None:
        """Take a partition from one broker, and give it back after a while."""
        key = self._keys[number % len(self._keys)]
        brokers = [1 + (number // 7 + shift) % BROKERS for shift in range(BROKERS)]
        target = brokers if number & 1 else brokers[1:]
        if self.move(key, target):
            if number & 2 and len(target) < BROKERS:
                self._world.after(length_ms * 500, lambda: self._move(key, brokers[0]))
            self._world.after(length_ms * 1_000, lambda: self.give_back(key))

    def _move(self, key: TopicPartition, broker_id: int) -> None:
        """To a broker that has nothing of it."""
        if self._world.is_calm or self._oracle.state_of(key) is None:
            return
        replicas = self._oracle.assignment_of(key.topic).partitions[key.partition]
        if broker_id not in replicas:
            self.move(key, [broker_id])

    def move(self, key: TopicPartition, target: list[int]) -> bool:
        """Ask for these replicas; False when others are asked for, or that is not possible now."""
        if not self._write(REASSIGN_PARTITIONS, encode_reassignments({key: target})):
            return False
        self._world.note(f"{key} is reassigned to {target}")
        self._world.counts["reassignment"] += 1
        return True

    def give_back(self, key: TopicPartition) -> None:
        """To all brokers."""
        if not self._world.is_calm:
            self.move(key, list(range(1, BROKERS + 1)))

    def trouble(self) -> str | None:
        """What has not been done yet; asks for what is left to do."""
        nodes = self._ensemble.tree.nodes
        if REASSIGN_PARTITIONS in nodes:
            return f"partitions are being reassigned: {nodes[REASSIGN_PARTITIONS].data!r}"
        for key in self._keys:
            if f"{BROKER_TOPICS}/{key.topic}" not in nodes:
                return f"{key.topic} does not exist"
            topic = decoded_assignment(nodes[f"{BROKER_TOPICS}/{key.topic}"].data)
            replicas = topic.partitions[key.partition]
            if topic.adding or topic.removing:
                return f"{key} is being reassigned: {topic}"
            if len(replicas) < BROKERS:
                missing = [
                    broker_id for broker_id in range(1, BROKERS + 1) if broker_id not in replicas
                ]
                self.move(key, [*replicas, *missing])
                return f"{key} is not everywhere: {topic}"
        for key in self._deleted:
            if f"{BROKER_TOPICS}/{key.topic}" in nodes or f"{DELETE_TOPICS}/{key.topic}" in nodes:
                return f"{key.topic} is not deleted"
            for process in self._oracle.processes.values():
                node = process.node
                if node is None or node.parts.partitions.get(*key) is not None:
                    return f"{key.topic} is not deleted at broker {process.broker_id}"
                if f"{key.topic}-{key.partition}" in process.disk.list("/a"):
                    return f"broker {process.broker_id} keeps the folder of {key}"
        return None
