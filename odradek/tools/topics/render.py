"""The lines of `odradek topics --describe`: which partitions are shown, and how.

Source: Kafka 3.9's TopicCommand (TopicDescription, PartitionDescription, DescribeOptions).
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.tools.options import Options

IN_SYNC_MIN: Final = "min.insync.replicas"


class DescribedPartition(NamedTuple):
    partition_index: int
    leader: int | None
    """None when there is none, or it is not alive."""
    replicas: Sequence[int]
    in_sync: Sequence[int]
    eligible: Sequence[int] | None
    """Eligible leader replicas (KIP-966); None where the cluster does not track them."""
    last_known: Sequence[int] | None


class Topic(NamedTuple):
    name: str
    topic_id: UUID
    partitions: Sequence[DescribedPartition]
    """Sorted, without gaps."""


class Config(NamedTuple):
    value: str | None
    """None for a sensitive setting."""
    is_default: bool
    """Neither the topic nor a broker overrides it."""


class DescribedReassignment(NamedTuple):
    """A running reassignment of one partition."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


def topic_id_text(topic_id: UUID) -> str:
    """A topic id in Kafka's form: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def replication_factor(
    partition: DescribedPartition, reassignment: DescribedReassignment | None
) -> int:
    """The number of replicas without those that a reassignment adds."""
    if reassignment is not None and set(partition.replicas) & {
        *reassignment.adding,
        *reassignment.removing,
    }:
        return len(reassignment.replicas) - len(reassignment.adding)
    return len(partition.replicas)


def topic_line(
    topic: Topic, configs: Mapping[str, Config], reassignment: DescribedReassignment | None
) -> str:
    """The line above the partitions of a topic.

    configs       in the order of the broker's response
    reassignment  of the first partition
    """
    shown = ",".join(
        f"{name}={'null' if config.value is None else config.value}"
        for name, config in configs.items()
        if not config.is_default
    )
    topic_id = f"\tTopicId: {topic_id_text(topic.topic_id)}" if topic.topic_id.int else ""
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication_factor(topic.partitions[0], reassignment)}"
        f"\tConfigs: {shown}"
    )


def partition_line(
    name: str, partition: DescribedPartition, reassignment: DescribedReassignment | None
) -> str:
    """The line of one partition of the topic `name`."""
    changes = ""
    if reassignment is not None:
        changes = (
            f"\tAdding Replicas: {_brokers(reassignment.adding)}"
            f"\tRemoving Replicas: {_brokers(reassignment.removing)}"
        )
    return (
        f"\tTopic: {name}\tPartition: {partition.partition_index}"
        f"\tLeader: {'none' if partition.leader is None else partition.leader}"
        f"\tReplicas: {_brokers(partition.replicas)}\tIsr: {_brokers(partition.in_sync)}{changes}"
        f"\tElr: {_brokers(partition.eligible)}\tLastKnownElr: {_brokers(partition.last_known)}"
    )


def _brokers(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def is_shown(
    options: Options,
    partition: DescribedPartition,
    configs: Mapping[str, Config],
    *,
    reassignment: DescribedReassignment | None,
    live: Collection[int],
) -> bool:
    """Whether one of the requested reports includes the partition.

    live  ids of the brokers that are alive
    """
    in_sync = len(partition.in_sync)
    in_sync_min = configs.get(IN_SYNC_MIN)
    required = 1 if in_sync_min is None or in_sync_min.value is None else int(in_sync_min.value)
    has_leader = partition.leader is not None
    return (
        (
            options.has("under-replicated-partitions")
            and in_sync < replication_factor(partition, reassignment)
        )
        or (options.has("under-min-isr-partitions") and (not has_leader or in_sync < required))
        or (options.has("at-min-isr-partitions") and in_sync == required)
        or (options.has("unavailable-partitions") and partition.leader not in live)
    )
