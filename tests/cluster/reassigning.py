"""Moves replicas in a cluster, with the controller of the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.support.broker_cluster import BrokerCluster, ClusterSilent
from tests.support.wire import Wire

NOT_CONTROLLER = 41


def ask(cluster: BrokerCluster, request: Any, version: int) -> Any:
    """The response of the controller.

    raises  ClusterSilent while there is none
    """
    controller = cluster.controller()
    if controller not in cluster.running:
        raise ClusterSilent(f"the controller is {controller}")
    with Wire(cluster.brokers[controller].address) as wire:
        return wire.call(request, version)


def move(cluster: BrokerCluster, name: str, targets: Mapping[int, Sequence[int] | None]) -> None:
    """AlterPartitionReassignments of a topic; None ends the move of a partition."""
    partitions = [
        ReassignablePartition(
            partition_index=index, replicas=None if target is None else list(target)
        )
        for index, target in targets.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=partitions)]
    )

    def is_begun() -> bool:
        response = ask(cluster, request, 0)
        if response.error_code == NOT_CONTROLLER:
            return False
        (topic,) = response.responses
        assert not any(partition.error_code for partition in topic.partitions), response
        return True

    cluster.wait(is_begun, f"moving to {targets}")


def wait_for_moves(
    cluster: BrokerCluster, name: str, replicas: Mapping[int, Sequence[int]]
) -> None:
    """Until nothing moves, and every broker knows the new replicas."""

    def is_done() -> bool:
        response = ask(cluster, ListPartitionReassignmentsRequest(topics=None), 0)
        if response.error_code or response.topics:
            return False
        return all(
            sorted(state.replica_nodes) == sorted(replicas[index])
            for broker_id in cluster.running
            for index, state in cluster.partitions(name, of=broker_id).items()
        )

    cluster.wait(is_done, f"replicas {replicas}")
    cluster.wait_until_complete(name)
