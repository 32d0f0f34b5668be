"""Lookups of topics, partitions and brokers in this broker's image of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import unpack
from typing import Final, NamedTuple
from uuid import UUID

from odradek.controller.image.image import INTERNAL_TOPICS, BrokerImage, Image, TopicImage
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.protocol.errors import ErrorCode

OFFSETS_TOPIC: Final = INTERNAL_TOPICS[0]
TRANSACTION_TOPIC: Final = INTERNAL_TOPICS[1]
TOPIC_NAME_PATTERN: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
NO_LEADER: Final = -1
HASHES_KEPT: Final = 4_096
KEPT_LENGTH_MAX: Final = 128
"""Characters; the kept hashes take 2 MiB at most."""
VIEWS_KEPT: Final = 512
KEPT_PARTITIONS_MAX: Final = 64
"""Topics with more are not kept: the views take 5 MiB at most."""

LiveBroker = tuple[int, str, int, str | None]
"""(id, host, port, rack) of a broker."""


def is_valid_topic_name(name: str) -> bool:
    """Whether Kafka allows a topic of this name (Topic.validate)."""
    return name not in (".", "..") and TOPIC_NAME_PATTERN.fullmatch(name) is not None


def java_string_hash(text: str) -> int:
    """java.lang.String.hashCode: an int32 over UTF-16 units; decides a group's coordinator.

    cost  0.1 us for one of the last 4,096 short texts, else 60 ns a character
    """
    return _kept_hash(text) if len(text) <= KEPT_LENGTH_MAX else _hash(text)


def _hash(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    units = unpack(f">{len(data) // 2}H", data)
    number = 0
    for unit in units:
        number = (31 * number + unit) & 0xFFFFFFFF
    return number - (1 << 32) if number & 0x80000000 else number


def abs_java(number: int) -> int:
    """Kafka's Utils.abs: the least int32 becomes 0."""
    return 0 if number == -(2**31) else abs(number)


def partition_for(key: str, partition_count: int) -> int:
    """The partition of an internal topic that a group or a transactional id belongs to.

    Source: Kafka's GroupMetadataManager.partitionFor and TransactionStateManager.partitionFor.
    """
    return abs_java(java_string_hash(key)) % partition_count


_kept_hash = lru_cache(maxsize=HASHES_KEPT)(_hash)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition in the terms of a Metadata response."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    """Ids of brokers that are not registered, or whose log directory has failed."""


class TopicView(NamedTuple):
    """A topic in the terms of a Metadata response; partitions by index."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionView, ...]


class Topics:
    """Lookups in the newest image."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._views: dict[str, tuple[TopicImage, TopicView]] = {}
        """By name, with the part of the image that each was made of: parts are replaced, and never
        changed."""
        self._brokers: Mapping[int, BrokerImage] | None = None
        self._nodes: dict[str, tuple[LiveBroker, ...]] = {}
        """By listener, of `_brokers`."""

    def image(self) -> Image:
        """The newest image itself, for responses that take much of it."""
        return self._metadata.image

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters."""
        return self._metadata.image.cluster_id or ""

    def has_movable_leader(self, broker_id: int) -> bool:
        """Whether a broker leads a partition that has other replicas; 0.3 us a partition."""
        return any(
            partition.state is not None
            and partition.state.leader == broker_id
            and len(partition.replicas) > 1
            for topic in self._metadata.image.topics.values()
            for partition in topic.partitions.values()
        )

    @property
    def controller_id(self) -> int:
        """The broker that is the controller, or -1."""
        return self._metadata.image.controller_id

    def names(self) -> list[str]:
        """All topics, sorted."""
        return sorted(self._metadata.image.topics)

    def name_of(self, topic_id: UUID) -> str | None:
        """The topic with this id."""
        return self._metadata.image.topic_names.get(topic_id)

    def was_deleted(self, name: str) -> bool:
        """Whether a topic was deleted lately and does not exist."""
        return self._metadata.was_deleted(name)

    @property
    def has_brokers(self) -> bool:
        """Whether the controller has sent metadata."""
        return bool(self._metadata.image.brokers)

    def brokers(self, listener_name: str) -> tuple[LiveBroker, ...]:
        """(id, host, port, rack) of the live brokers that have an address on the listener."""
        brokers = self._metadata.image.brokers
        if brokers is not self._brokers:
            self._brokers = brokers
            self._nodes = {}
        nodes = self._nodes.get(listener_name)
        if nodes is None:
            nodes = self._nodes[listener_name] = tuple(_nodes(brokers, listener_name))
        return nodes

    def view(self, name: str) -> TopicView | None:
        """A topic, or None."""
        topic = self._metadata.image.topics.get(name)
        if topic is None:
            return None
        kept = self._views.get(name)
        if kept is not None and kept[0] is topic:
            return kept[1]
        view = _view(topic)
        if len(view.partitions) <= KEPT_PARTITIONS_MAX:
            if len(self._views) >= VIEWS_KEPT:
                self._views = {}
            self._views[name] = topic, view
        return view

    def coordinator_partition(self, name: str, key: str) -> int | None:
        """The partition of an internal topic whose leader coordinates a group or an id.

        returns  None when there is no such topic yet
        """
        count = self._metadata.image.hashed_partition_count(name)
        return None if count is None else partition_for(key, count)

    def absence(self, name: str, index: int) -> ErrorCode:
        """The error for a partition that this broker has no replica of.

        NOT_LEADER_OR_FOLLOWER when the cluster has the partition (elsewhere, or not here yet), else
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        if self._metadata.image.partition(name, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _nodes(brokers: Mapping[int, BrokerImage], listener_name: str) -> Iterator[LiveBroker]:
    for broker in brokers.values():
        endpoint = broker.endpoint(listener_name)
        if endpoint is not None:
            yield broker.broker_id, endpoint.host, endpoint.port, broker.rack


def _view(topic: TopicImage) -> TopicView:
    partitions = []
    for index in sorted(topic.partitions):
        partition = topic.partitions[index]
        state = partition.state
        partitions.append(
            PartitionView(
                index=index,
                leader=NO_LEADER if state is None else state.leader,
                leader_epoch=-1 if state is None else state.leader_epoch,
                replicas=partition.replicas,
                isr=() if state is None else state.isr,
                offline_replicas=partition.offline_replicas,
            )
        )
    return TopicView(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(partitions),
    )
