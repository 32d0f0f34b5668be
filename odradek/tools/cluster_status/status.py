"""The state of a cluster, as `odradek cluster-status` shows it: plain data."""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.topic_partition import TopicPartition


class BrokerStatus(NamedTuple):
    node_id: int
    address: str
    rack: str | None
    protocol: str | None
    """Its inter.broker.protocol.version; None: it is not known."""


class LogDirectoryStatus(NamedTuple):
    path: str
    error: str | None
    """Why it is offline; None: it is online."""
    replicas: int
    logs_bytes: int
    total_bytes: int
    """The size of its volume; -1: unknown."""
    usable_bytes: int


class GroupsStatus(NamedTuple):
    group_count: int
    lag: int
    """Records after the committed offsets, of all groups whose offsets are known."""
    unknown: int
    """Groups whose committed offsets are not known."""
    leaderless: int
    """Partitions with a committed offset whose end is not known."""


class ClusterStatus(NamedTuple):
    cluster_id: str | None
    controller_id: int
    """-1: there is none."""
    brokers: list[BrokerStatus]
    missing: list[int]
    """Brokers that are not registered and have replicas."""
    topics: int
    partitions: int
    offline: list[TopicPartition]
    under_min_isr: list[TopicPartition] | str
    """Or why it is not known, here and below."""
    under_replicated: list[TopicPartition]
    directories: dict[int, list[LogDirectoryStatus] | str]
    """By broker."""
    groups: GroupsStatus | str
