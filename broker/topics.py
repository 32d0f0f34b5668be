"""What this broker knows of the cluster's topics, as handlers ask for it.

The picture is the broker's own, made of the UpdateMetadata requests that the controller sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import unpack
from typing import Final
from uuid import UUID

from odradek.controller.active.topic_admin import TopicResult
from odradek.controller.image import Image, TopicImage
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.pending import Pending

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
TOPIC_NAME_PATTERN: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
NO_LEADER: Final = -1
UNDER_WAY_MAX: Final = 1_000
"""Topics that are being created on first use at a time; for more, clients ask again."""
HASHES_KEPT: Final = 4_096
KEPT_LENGTH_MAX: Final = 128
"""Characters; what is kept takes 2 MiB at most."""


def is_valid_topic_name(name: str) -> bool:
    """Whether Kafka allows a topic of this name (Topic.validate)."""
    return name not in (".", "..") and TOPIC_NAME_PATTERN.fullmatch(name) is not None


def java_string_hash(text: str) -> int:
    """java.lang.String.hashCode: an int32 over UTF-16 units; decides a group's coordinator.

    cost  0.1 us for a short one that was asked for lately, else 60 ns a character
    """
    return _kept_hash(text) if len(text) <= KEPT_LENGTH_MAX else _hash(text)


def _hash(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    units = unpack(f">{len(data) // 2}H", data)
    number = 0
    for unit in units:
        number = (31 * number + unit) & 0xFFFFFFFF
    return number - (1 << 32) if number & 0x80000000 else number


_kept_hash = lru_cache(maxsize=HASHES_KEPT)(_hash)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as Metadata tells it."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    """On brokers that are away or on failed log directories, as the controller says."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as Metadata tells it; partitions by index."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionView, ...]


CreateOnFirstUse = Callable[[str, str], Pending[TopicResult]]
"""(topic, the client for the log): writes the topic, with the broker's defaults."""


class Topics:
    """Lookups in the newest image, and the creation of topics on first use."""

    def __init__(self, picture: Callable[[], Image], create: CreateOnFirstUse) -> None:
        self._picture = picture
        self._create = create
        self._under_way: dict[str, Pending[TopicResult]] = {}

    def picture(self) -> Image:
        """The newest picture itself, for those that ask for much of it."""
        return self._picture()

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters."""
        return self._picture().cluster_id or ""

    @property
    def controller_id(self) -> int:
        """The broker that is the controller, or -1."""
        return self._picture().controller_id

    def names(self) -> list[str]:
        """All topics, sorted."""
        return sorted(self._picture().topics)

    def name_of(self, topic_id: UUID) -> str | None:
        """The topic with this id."""
        return self._picture().topic_names.get(topic_id)

    def brokers(self, listener_name: str) -> list[tuple[int, str, int, str | None]]:
        """(id, host, port, rack) of the live brokers that have an address on the listener."""
        found = []
        for broker in self._picture().brokers.values():
            endpoint = broker.endpoint(listener_name)
            if endpoint is not None:
                found.append((broker.broker_id, endpoint.host, endpoint.port, broker.rack))
        return found

    def view(self, name: str) -> TopicView | None:
        """A topic, or None."""
        topic = self._picture().topics.get(name)
        return None if topic is None else _view(topic)

    def absence(self, name: str, index: int) -> ErrorCode:
        """Why this broker does not hold a partition.

        NOT_LEADER_OR_FOLLOWER when the cluster has it (elsewhere, or not here yet), else
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        if self._picture().partition(name, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def auto_create(self, name: str, requester: str) -> Pending[TopicResult]:
        """Begin to create a topic on first use, or join a creation that is under way.

        Done when the topic is stored; its view comes with the controller's next UpdateMetadata.
        Source: Kafka's AutoTopicCreationManager (inflightTopics).
        """
        known = self._under_way.get(name)
        if known is not None:
            return known
        if len(self._under_way) >= UNDER_WAY_MAX:
            return Pending.failed(BrokerError(ErrorCode.LEADER_NOT_AVAILABLE))

        def forget(_: Pending[TopicResult]) -> None:
            del self._under_way[name]

        creation = self._under_way[name] = self._create(name, requester)
        creation.on_done(forget)
        return creation


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
