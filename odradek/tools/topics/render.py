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


class Partition(NamedTuple):
    """A partition as the cluster describes it."""

    partition_index: int
    leader: int | None
    """None when there is none, or it is no broker of the cluster now."""
    replicas: Sequence[int]
    in_sync: Sequence[int]
    eligible: Sequence[int] | None
    """Eligible leader replicas (KIP-966); None where the cluster does not track them."""
    last_known: Sequence[int] | None


class Topic(NamedTuple):
    """A topic as the cluster describes it."""

    name: str
    topic_id: UUID
    partitions: Sequence[Partition]
    """In their order, without gaps."""


class Config(NamedTuple):
    """One setting of a topic."""

    value: str | None
    """None when it is secret."""
    is_default: bool
    """Neither the topic nor a broker sets it."""


class Move(NamedTuple):
    """A reassignment of a partition that is under way."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


def topic_id_text(topic_id: UUID) -> str:
    """An id as Kafka prints it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def replication_factor(partition: Partition, move: Move | None) -> int:
    """Copies of a partition, those left out that a move adds."""
    if move is not None and set(partition.replicas) & {*move.adding, *move.removing}:
        return len(move.replicas) - len(move.adding)
    return len(partition.replicas)


def topic_line(topic: Topic, configs: Mapping[str, Config], move: Move | None) -> str:
    """The line above the partitions of a topic.

    configs  in the order of the broker's answer
    move     of the first partition
    """
    shown = ",".join(
        f"{name}={'null' if config.value is None else config.value}"
        for name, config in configs.items()
        if not config.is_default
    )
    topic_id = f"\tTopicId: {topic_id_text(topic.topic_id)}" if topic.topic_id.int else ""
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication_factor(topic.partitions[0], move)}\tConfigs: {shown}"
    )


def partition_line(name: str, partition: Partition, move: Move | None) -> str:
    """One partition of the topic `name`."""
    moving = ""
    if move is not None:
        moving = (
            f"\tAdding Replicas: {_brokers(move.adding)}"
            f"\tRemoving Replicas: {_brokers(move.removing)}"
        )
    return (
        f"\tTopic: {name}\tPartition: {partition.partition_index}"
        f"\tLeader: {'none' if partition.leader is None else partition.leader}"
        f"\tReplicas: {_brokers(partition.replicas)}\tIsr: {_brokers(partition.in_sync)}{moving}"
        f"\tElr: {_brokers(partition.eligible)}\tLastKnownElr: {_brokers(partition.last_known)}"
    )


def _brokers(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def is_shown(
    options: Options,
    partition: Partition,
    configs: Mapping[str, Config],
    *,
    move: Move | None,
    live: Collection[int],
) -> bool:
    """Whether one of the reports that are asked for holds the partition.

    live  ids of the brokers that are in the cluster now
    """
    in_sync = len(partition.in_sync)
    in_sync_min = configs.get(IN_SYNC_MIN)
    wanted = 1 if in_sync_min is None or in_sync_min.value is None else int(in_sync_min.value)
    has_leader = partition.leader is not None
    return (
        (
            options.has("under-replicated-partitions")
            and in_sync < replication_factor(partition, move)
        )
        or (options.has("under-min-isr-partitions") and (not has_leader or in_sync < wanted))
        or (options.has("at-min-isr-partitions") and in_sync == wanted)
        or (options.has("unavailable-partitions") and partition.leader not in live)
    )
