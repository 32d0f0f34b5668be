"""Which replicas lead where a broker is to lead nothing, and what forbids it.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.steering.cluster_model import ClusterModel
from odradek.tools.steering.cluster_queries import PartitionStatus

Statuses = Mapping[TopicPartition, PartitionStatus]


def leaders_off(
    model: ClusterModel, statuses: Statuses, broker: int
) -> dict[TopicPartition, tuple[int, ...]]:
    """New orders of replicas, so that the preferred leader is another broker, in sync.

    The brokers with the fewest leaders are preferred.  A partition that has no other replica in
    sync is left out.
    """
    led = {row.node_id: 0 for row in model.brokers}
    for row in model.partitions:
        led[row.replicas[0]] = led.get(row.replicas[0], 0) + 1
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for row in model.partitions:
        in_sync = statuses[row.partition].isr
        chosen = [node_id for node_id in row.replicas if node_id != broker and node_id in in_sync]
        if row.replicas[0] != broker or not chosen:
            continue
        leader = min(chosen, key=lambda node_id: led[node_id])
        led[leader] += 1
        swapped = {leader: broker, broker: leader}
        targets[row.partition] = tuple(swapped.get(node_id, node_id) for node_id in row.replicas)
    return targets


def without_other_leader(statuses: Statuses, broker: int) -> list[TopicPartition]:
    """Partitions that would have no leader without the broker."""
    return [
        partition
        for partition, status in statuses.items()
        if broker in status.replicas and not set(status.isr) - {broker}
    ]


def below_min_isr(
    statuses: Statuses, min_isr: Mapping[str, int], broker: int
) -> list[TopicPartition]:
    """Partitions that take no records with acks=all while the broker is away.

    min_isr  by topic
    """
    return [
        partition
        for partition, status in statuses.items()
        if broker in status.isr
        and len(status.isr) - 1 < min(min_isr.get(partition.topic, 1), len(status.replicas))
    ]


def lagging_others(statuses: Statuses, broker: int) -> list[TopicPartition]:
    """Partitions of the broker with another replica that is not in sync."""
    return [
        partition
        for partition, status in statuses.items()
        if broker in status.replicas and set(status.replicas) - set(status.isr) - {broker}
    ]
