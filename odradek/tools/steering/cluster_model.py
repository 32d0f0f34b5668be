"""What a proposal is made of: brokers, partitions, their loads, and a placement of the replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from operator import sub
from typing import NamedTuple

from odradek.protocol.topic_partition import TopicPartition


class Load(IntEnum):
    """What a replica costs its broker: the position in a vector of loads."""

    REPLICAS = 0
    LEADERS = 1
    DISK = 2
    BYTES_IN = 3
    """Records that are written to leaders and followers, in bytes a second."""
    LEADER_BYTES_IN = 4


class ModelBroker(NamedTuple):
    """A broker that is registered."""

    node_id: int
    rack: str | None = None
    disk_bytes: int = -1
    """What its logs use, and what is free for them; -1: unknown."""


class ModelPartition(NamedTuple):
    """A partition that has a replica at least."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    """The first is the preferred leader."""
    leader: int
    """-1: there is none."""
    size_bytes: int = 0
    bytes_in_per_s: float = 0.0
    is_excluded: bool = False
    """It loads its brokers, and is not moved."""


class ClusterModel(NamedTuple):
    """A cluster at one moment."""

    brokers: tuple[ModelBroker, ...]
    partitions: tuple[ModelPartition, ...]

    def with_targets(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> ClusterModel:
        """The cluster after reassignments and elections of preferred leaders."""
        partitions = []
        for row in self.partitions:
            replicas = targets.get(row.partition, row.replicas)
            leader = row.leader if row.is_excluded else replicas[0]
            partitions.append(row._replace(replicas=replicas, leader=leader))
        return self._replace(partitions=tuple(partitions))


def loads_of(model: ClusterModel) -> dict[int, tuple[float, ...]]:
    """The loads of each broker, with its present leaders."""
    totals = {broker.node_id: [0.0] * len(Load) for broker in model.brokers}
    for row in model.partitions:
        for node_id in row.replicas:
            if node_id in totals:
                for load, amount in enumerate(replica_loads(row, is_leader=node_id == row.leader)):
                    totals[node_id][load] += amount
    return {node_id: tuple(amounts) for node_id, amounts in totals.items()}


def replica_loads(row: ModelPartition, *, is_leader: bool) -> tuple[float, ...]:
    """The loads of one replica, by `Load`."""
    rate = row.bytes_in_per_s
    return (1.0, float(is_leader), float(row.size_bytes), rate, rate if is_leader else 0.0)


def spread(loads: Mapping[int, tuple[float, ...]], load: Load) -> float:
    """The difference of the most and the least loaded broker, as a part of the mean; 0 without
    load."""
    amounts = [vector[load] for vector in loads.values()]
    total = sum(amounts)
    return (max(amounts) - min(amounts)) * len(amounts) / total if total > 0 else 0.0


class ReplicaChange(NamedTuple):
    """One partition: a replica goes to another broker, or the other broker becomes its leader."""

    row: int
    """The position of the partition in the model."""
    source: int
    destination: int
    is_leadership: bool


class PlacementAction(NamedTuple):
    """One change, or two that exchange replicas of the same two brokers."""

    source: int
    destination: int
    changes: tuple[ReplicaChange, ...]
    shifted: tuple[float, ...]
    """What goes from source to destination, by `Load`."""


class ReplicaPlacement:
    """The preferred leader of a partition is counted as its leader."""

    def __init__(self, model: ClusterModel) -> None:
        self.partitions = model.partitions
        self.replicas: list[list[int]] = [list(row.replicas) for row in model.partitions]
        brokers = [broker.node_id for broker in model.brokers]
        self.held: dict[int, dict[int, None]] = {node_id: {} for node_id in brokers}
        """Broker -> the partitions of which it has a replica, in the order of arrival."""
        self.loads: dict[int, list[float]] = {node_id: [0.0] * len(Load) for node_id in brokers}
        self.topic_replicas: dict[str, dict[int, int]] = {}
        """Topic -> broker -> replicas."""
        self._loads = [
            (replica_loads(row, is_leader=False), replica_loads(row, is_leader=True))
            for row in model.partitions
        ]
        for index, replicas in enumerate(self.replicas):
            counts = self.topic_replicas.setdefault(self.topic(index), dict.fromkeys(brokers, 0))
            for node_id in replicas:
                self.held[node_id][index] = None
                counts[node_id] += 1
                for load, amount in enumerate(self.loads_on(index, node_id)):
                    self.loads[node_id][load] += amount

    def topic(self, index: int) -> str:
        return self.partitions[index].partition.topic

    def loads_on(self, index: int, node_id: int) -> tuple[float, ...]:
        """What the replica of a partition costs a broker that has it."""
        return self._loads[index][self.replicas[index][0] == node_id]

    def move(self, index: int, source: int, destination: int) -> PlacementAction:
        """A replica goes to a broker that has none; a leader stays the leader."""
        change = ReplicaChange(index, source, destination, is_leadership=False)
        return PlacementAction(source, destination, (change,), self.loads_on(index, source))

    def lead(self, index: int, source: int, destination: int) -> PlacementAction:
        """Another replica becomes the leader."""
        change = ReplicaChange(index, source, destination, is_leadership=True)
        follower, leader = self._loads[index]
        shifted = tuple(map(sub, leader, follower))
        return PlacementAction(source, destination, (change,), shifted)

    def exchange(self, index: int, other: int, source: int, destination: int) -> PlacementAction:
        """Two brokers exchange replicas of two partitions."""
        forth = ReplicaChange(index, source, destination, is_leadership=False)
        back = ReplicaChange(other, destination, source, is_leadership=False)
        given = self.loads_on(index, source)
        taken = self.loads_on(other, destination)
        shifted = tuple(map(sub, given, taken))
        return PlacementAction(source, destination, (forth, back), shifted)

    def apply(self, action: PlacementAction) -> None:
        for load, amount in enumerate(action.shifted):
            self.loads[action.source][load] -= amount
            self.loads[action.destination][load] += amount
        for index, source, destination, is_leadership in action.changes:
            replicas = self.replicas[index]
            position = replicas.index(source)
            if is_leadership:
                other = replicas.index(destination)
                replicas[position], replicas[other] = destination, source
                continue
            replicas[position] = destination
            del self.held[source][index]
            self.held[destination][index] = None
            counts = self.topic_replicas[self.topic(index)]
            counts[source] -= 1
            counts[destination] += 1

    def movable(
        self, source: int, destination: int, among: Iterable[int] | None = None
    ) -> list[int]:
        """The partitions of which a replica may go from one broker to the other.

        among  None: all partitions of `source`
        """
        here, there = self.held[source], self.held[destination]
        return [
            index
            for index in (here if among is None else among)
            if index not in there and index in here and not self.partitions[index].is_excluded
        ]

    def leadable(self, source: int, destination: int) -> list[int]:
        """The partitions whose leadership may go from one broker to the other."""
        there = self.held[destination]
        return [
            index
            for index in self.held[source]
            if index in there
            and self.replicas[index][0] == source
            and not self.partitions[index].is_excluded
        ]
