"""The state of a cluster as plain data, and the screen of `odradek cluster-status`.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import partition_text

NAMED_MAX: Final = 5
"""Partitions that a line names."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


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


def render(status: ClusterStatus) -> str:
    """The screen; a line for each broker and directory, however many there are."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(status))


def _lines(status: ClusterStatus) -> Iterator[str]:
    yield f"Cluster: {status.cluster_id or 'unknown id'}"
    controller = status.controller_id
    yield f"Controller: {'none' if controller < 0 else f'broker {controller}'}"
    yield f"Brokers: {len(status.brokers)}"
    for broker in status.brokers:
        yield f"  {_broker(broker)}"
    for node_id in status.missing:
        yield f"  {node_id}  is not registered and has replicas"
    yield f"Partitions: {status.partitions} of {status.topics} topics"
    yield f"  offline: {_partitions(status.offline)}"
    yield f"  under min.insync.replicas: {_partitions(status.under_min_isr)}"
    yield f"  under-replicated: {_partitions(status.under_replicated)}"
    yield "Log directories:"
    for node_id, directories in status.directories.items():
        if isinstance(directories, str):
            yield f"  {node_id}  unknown: {directories}"
            continue
        for directory in directories:
            yield f"  {node_id}  {_directory(directory)}"
    yield f"Groups: {_groups(status.groups)}"


def _broker(broker: BrokerStatus) -> str:
    words = [str(broker.node_id), broker.address]
    if broker.rack is not None:
        words.append(f"rack {broker.rack}")
    if broker.protocol is not None:
        words.append(f"protocol {broker.protocol}")
    return "  ".join(words)


def _partitions(partitions: Sequence[TopicPartition] | str) -> str:
    if isinstance(partitions, str):
        return f"unknown: {partitions}"
    if not partitions:
        return "0"
    return f"{len(partitions)} ({partition_names(partitions)})"


def partition_names(partitions: Sequence[TopicPartition]) -> str:
    """The first of the partitions, and how many more there are."""
    named = ", ".join(map(partition_text, partitions[:NAMED_MAX]))
    more = len(partitions) - NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named


def _directory(directory: LogDirectoryStatus) -> str:
    if directory.error is not None:
        return f"{directory.path}  offline: {directory.error}"
    text = f"{directory.path}  {directory.replicas} replicas, {size_text(directory.logs_bytes)}"
    if directory.total_bytes < 0 or directory.usable_bytes < 0:
        return text
    free, total = size_text(directory.usable_bytes), size_text(directory.total_bytes)
    return f"{text}; {free} of {total} free"


def _groups(groups: GroupsStatus | str) -> str:
    if isinstance(groups, str):
        return f"unknown: {groups}"
    text = f"{groups.group_count}, lag {groups.lag} in all"
    if groups.unknown:
        text += f", without {groups.unknown} whose offsets are unknown"
    if groups.leaderless:
        text += f", without {groups.leaderless} partitions whose end is unknown"
    return text


def size_text(size_bytes: int) -> str:
    """`1.5 GiB`: at most four digits, rounded down."""
    unit = 0
    while size_bytes >> 10 * (unit + 1) and unit < len(_UNITS) - 1:
        unit += 1
    if unit == 0:
        return f"{size_bytes} B"
    tenths = size_bytes * 10 >> 10 * unit
    return f"{tenths // 10}.{tenths % 10} {_UNITS[unit]}"
