"""Reassignment of partitions: the target, what it adds and removes, when it is complete.  Pure.

The topic's znode contains replicas = target + origin (the target first), adding = target - origin,
removing = origin - target.  The origin is replicas - adding, the target replicas - removing: both
survive a controller.  A new target keeps the origin; a cancellation makes the origin the target.
Source: KIP-455; Kafka's ReplicaAssignment, KafkaController.onPartitionReassignment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from odradek.controller.image.image import Image, PartitionImage
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition

_SMALL_SET_SIZE: Final = 4
"""Up to which Scala shows a set as Set, not as HashSet."""


def is_being_reassigned(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def origin_replicas(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas before the reassignment, or those of now without one."""
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def target_replicas(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas after the reassignment, or those of now without one."""
    return tuple(replica for replica in partition.replicas if replica not in partition.removing)


def reassign_to(partition: PartitionImage, target: Sequence[int]) -> PartitionImage:
    """The partition with another target; one that only reorders replicas adds and removes none."""
    origin = origin_replicas(partition)
    targets = dict.fromkeys(target)
    return partition._replace(
        replicas=tuple(dict.fromkeys((*target, *origin))),
        adding=tuple(replica for replica in targets if replica not in origin),
        removing=tuple(replica for replica in origin if replica not in targets),
    )


def completed(partition: PartitionImage) -> PartitionImage:
    """The partition when its reassignment is complete."""
    return partition._replace(replicas=target_replicas(partition), adding=(), removing=())


def is_complete(image: Image, topic: str, partition: PartitionImage) -> bool:
    """Whether all target replicas are in sync, and one of them can lead.

    Differs from Kafka, which completes a reassignment without a live target replica, and deletes
    the former replicas although the log of the only in-sync replica may not come back.
    """
    if not is_being_reassigned(partition):
        return True
    target = target_replicas(partition)
    return (
        partition.state is not None
        and all(replica in partition.state.isr for replica in target)
        and any(image.is_online(replica, topic, partition.partition) for replica in target)
    )


def decide_reassignment(
    image: Image,
    key: TopicPartition,
    target: Sequence[int] | None,
    *,
    deleting: Collection[str],
    must_be_live: bool = True,
) -> PartitionImage:
    """The partition with its new target.

    target        None cancels the reassignment that is under way
    deleting      topics that are being deleted
    must_be_live  refuse new replicas on brokers that are not live (a znode may name such brokers)
    raises        BrokerError INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS,
                  UNKNOWN_TOPIC_OR_PARTITION; of several the one that Kafka finds first
    """
    partition_in_image = image.partition(*key)
    partition = (
        PartitionImage(key.partition, ()) if partition_in_image is None else partition_in_image
    )
    if target is not None and must_be_live:
        _check_target(image, partition, target)
    if target is None:
        if not is_being_reassigned(partition):
            raise BrokerError(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
            )
        target = origin_replicas(partition)
    if partition_in_image is None or key.topic in deleting:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if not target:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The replica list is empty.")
    reassigned = reassign_to(partition, target)
    state = partition.state
    # Differs from Kafka: it deletes the only in-sync replicas then, and what was acknowledged with
    # them (its KRaft controllers refuse with this text).
    if state is not None and not any(replica in reassigned.replicas for replica in state.isr):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {key.topic}:{key.partition} because "
            "it would require an unclean leader election.",
        )
    return reassigned


def _check_target(image: Image, partition: PartitionImage, target: Sequence[int]) -> None:
    reason = ""
    adding = reassign_to(partition, target).adding
    if not target:
        reason = "Empty replica list specified in partition reassignment."
    elif len(dict.fromkeys(target)) < len(target):
        reason = f"Duplicate replica ids in partition reassignment replica list: {_buffer(target)}"
    elif any(replica < 0 for replica in target):
        reason = f"Invalid broker id in replica list: {_buffer(target)}"
    elif not all(image.is_live(replica) for replica in adding):
        live = [str(broker.broker_id) for broker in image.live_brokers()]
        kind = "Set" if len(live) <= _SMALL_SET_SIZE else "HashSet"
        reason = (
            "Replica assignment has brokers that are not alive. Replica list: "
            f"{_buffer(adding)}, live broker list: {kind}({', '.join(live)})"
        )
    if reason:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def _buffer(brokers: Sequence[int]) -> str:
    """The brokers as Scala shows a Buffer."""
    return f"ArrayBuffer({', '.join(map(str, brokers))})"
