"""Adding partitions to a topic: validation, and the replicas of the new ones.  Pure.

Source: Kafka's ZkAdminManager.createPartitions, AdminZkClient.createNewPartitionsAssignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.controller.decide.placement import Placement, place, racks_of
from odradek.controller.image.image import BrokerImage, TopicImage
from odradek.protocol.errors import BrokerError, ErrorCode


@dataclass(frozen=True, slots=True)
class CreatePartitionsSpec:
    """One topic of a CreatePartitions request."""

    topic: str
    count: int
    """Partitions that the topic has afterwards."""
    assignments: Sequence[tuple[int, ...]] | None = None
    """Replicas of each new partition, in order; None lets the broker place them."""


def decide_create_partitions(
    brokers: Sequence[BrokerImage], topic: TopicImage | None, spec: CreatePartitionsSpec
) -> Placement:
    """Replicas of the new partitions only.

    topic   the present content of its znode; None when there is no such topic
    raises  BrokerError UNKNOWN_TOPIC_OR_PARTITION, REASSIGNMENT_IN_PROGRESS, INVALID_PARTITIONS,
            INVALID_REPLICA_ASSIGNMENT, BROKER_NOT_AVAILABLE, UNKNOWN_SERVER_ERROR (some of the
            brokers without a rack, or no partition 0)
    """
    racks_of(brokers)
    if topic is None or not topic.partitions:
        raise BrokerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{spec.topic}' does not exist."
        )
    if any(partition.adding or partition.removing for partition in topic.partitions.values()):
        raise BrokerError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{spec.topic}'.",
        )
    old = len(topic.partitions)
    increment = spec.count - old
    if increment < 0:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {old} partitions, which is higher than the requested "
            f"{spec.count}.",
        )
    if increment == 0:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {old} partitions.")
    ids = sorted(broker.broker_id for broker in brokers)
    if spec.assignments is not None:
        _check_brokers_and_count(ids, spec.assignments, increment)
    first = topic.partitions.get(0)
    if first is None:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if spec.assignments is not None:
        given = {old + index: tuple(replicas) for index, replicas in enumerate(spec.assignments)}
        _check_replicas(given, len(first.replicas))
        return given
    start = next((at for at, broker_id in enumerate(ids) if broker_id >= first.replicas[0]), 0)
    return place(
        brokers,
        partitions=increment,
        replication_factor=len(first.replicas),
        start=start,
        shift=start,
        first_partition=old,
    )


def _check_brokers_and_count(
    ids: Sequence[int], assignments: Sequence[tuple[int, ...]], increment: int
) -> None:
    unknown = {
        broker_id: None
        for replicas in assignments
        for broker_id in replicas
        if broker_id not in ids
    }
    if unknown:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.",
        )
    if len(assignments) != increment:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Increasing the number of partitions by {increment} "
            f"but {len(assignments)} assignments provided.",
        )


def _check_replicas(given: Placement, replication_factor: int) -> None:
    for partition, replicas in given.items():
        if not replicas:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Cannot have replication factor of 0 for partition id {partition}.",
            )
        if len(set(replicas)) != len(replicas):
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Duplicate brokers not allowed in replica assignment: "
                f"{', '.join(map(str, replicas))} for partition id {partition}.",
            )
    bad = [index for index in sorted(given) if len(given[index]) != replication_factor]
    if bad:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Inconsistent replication factor between partitions, partition 0 has "
            f"{replication_factor} while partitions [{', '.join(map(str, bad))}] have replication "
            f"factors [{', '.join(str(len(given[index])) for index in bad)}], respectively.",
        )
