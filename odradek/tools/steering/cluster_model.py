"""What a proposal is made of: brokers, partitions and their loads.  Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
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
