"""What the controller tells brokers: LeaderAndIsr, UpdateMetadata, StopReplica, as plain values.

A broker gets them in order, one at a time; it must treat a repeated one as harmless.  Between real
nodes they travel as the requests of these names; the broker that is the controller gets them as
they are.  `ControlBatch` gathers what one event brings for each broker, and gives it in the order
in which it must be sent: leadership, then metadata, then stops.
Source: KIP-380, KIP-497, KIP-516, KIP-570; Kafka's ControllerBrokerRequestBatch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from odradek.controller.image import (
    LEADER_DURING_DELETE,
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
    TopicPartition,
)
from odradek.controller.znodes.zk_data import NO_TOPIC_ID
from odradek.protocol.errors import ErrorCode

EPOCH_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class LeaderAndIsrPartition:
    """What a replica's broker must know of a partition."""

    topic: str
    topic_id: UUID
    partition: int
    state: PartitionState
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    is_new: bool
    """The partition was just created: no log of it may be expected on any disk."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """Lead or follow these partitions."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    """The receiver's epoch as the controller knows it; an older one than its own is refused."""
    partitions: tuple[LeaderAndIsrPartition, ...]
    leaders: tuple[BrokerImage, ...]
    """The living ones among the leaders named."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataPartition:
    """What clients may be told of a partition."""

    topic: str
    topic_id: UUID
    partition: int
    state: PartitionState
    """Leader -2: the topic is being deleted, forget it."""
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """The living brokers, all of them, and the partitions that changed."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[UpdateMetadataPartition, ...]
    brokers: tuple[BrokerImage, ...]


@dataclass(frozen=True, slots=True)
class StopReplicaPartition:
    """A replica that must stop."""

    topic: str
    partition: int
    leader_epoch: int
    """-2 when the topic is being deleted, -1 when unknown; a lower one than known is fenced."""
    is_deleted: bool
    """Remove its files too."""


@dataclass(frozen=True, slots=True)
class StopReplica:
    """Stop these replicas."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[StopReplicaPartition, ...]


ControlRequest = LeaderAndIsr | UpdateMetadata | StopReplica


@dataclass(frozen=True, slots=True)
class ControlResponse:
    """A broker's response; partitions without an error may be left out."""

    error: ErrorCode = ErrorCode.NONE
    partition_errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
    log_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Latest leader epochs of logs that were to be led in a lower one, which was refused."""


class ControlBatch:
    """What one event brings to the brokers."""

    def __init__(self) -> None:
        self._leader_and_isr: dict[int, dict[TopicPartition, tuple[PartitionImage, bool]]] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._metadata_brokers: dict[int, None] = {}
        self._stops: dict[int, dict[TopicPartition, bool]] = {}

    def add_leader_and_isr(
        self, brokers: Iterable[int], topic: str, partition: PartitionImage, *, is_new: bool
    ) -> None:
        """Tell the brokers of a partition's state, and its metadata to everybody."""
        assert partition.state is not None, "a leader is told only when there is a state"
        key = (topic, partition.partition)
        for broker in brokers:
            told = self._leader_and_isr.setdefault(broker, {})
            was_new = key in told and told[key][1]
            told[key] = (partition, is_new or was_new)
        self._metadata[key] = None

    def add_metadata(
        self, partitions: Iterable[TopicPartition] = (), brokers: Iterable[int] = ()
    ) -> None:
        """Tell the partitions' metadata to everybody, and at least the brokers to `brokers`."""
        for partition in partitions:
            self._metadata[partition] = None
        for broker in brokers:
            self._metadata_brokers[broker] = None

    def add_stop(self, broker: int, partition: TopicPartition, *, is_deleted: bool) -> None:
        """Tell a broker to stop a replica; deleting wins over stopping."""
        stops = self._stops.setdefault(broker, {})
        stops[partition] = is_deleted or stops.get(partition, False)

    def requests(
        self, image: Image, controller_id: int, deleting: Collection[str]
    ) -> Iterator[tuple[int, ControlRequest]]:
        """(broker, request) in sending order; only for registered brokers.

        deleting  topics that are being deleted, whose partitions are told without a leader
        """
        for broker in sorted(self._leader_and_isr):
            if broker in image.brokers:
                yield broker, self._request_leader_and_isr(image, controller_id, broker)
        brokers = dict(self._metadata_brokers)
        if self._metadata:
            brokers |= dict.fromkeys(image.brokers)
        partitions = tuple(describe_partitions(image, self._metadata, deleting))
        for broker in sorted(brokers):
            if broker in image.brokers:
                yield broker, build_update_metadata(image, controller_id, broker, partitions)
        for broker in sorted(self._stops):
            if broker in image.brokers:
                yield broker, self._request_stops(image, controller_id, broker, deleting)

    def _request_leader_and_isr(
        self, image: Image, controller_id: int, broker: int
    ) -> LeaderAndIsr:
        partitions: list[LeaderAndIsrPartition] = []
        leaders: dict[int, BrokerImage] = {}
        for (topic, index), (partition, is_new) in self._leader_and_isr[broker].items():
            state = partition.state
            assert state is not None, "checked when it was added"
            partitions.append(
                LeaderAndIsrPartition(
                    topic=topic,
                    topic_id=_topic_id(image, topic),
                    partition=index,
                    state=state,
                    replicas=partition.replicas,
                    adding=partition.adding,
                    removing=partition.removing,
                    is_new=is_new,
                )
            )
            leader = image.brokers.get(state.leader)
            if leader is not None:
                leaders[leader.broker_id] = leader
        return LeaderAndIsr(
            controller_id,
            image.controller_epoch,
            image.brokers[broker].broker_epoch,
            tuple(partitions),
            tuple(leaders.values()),
        )

    def _request_stops(
        self, image: Image, controller_id: int, broker: int, deleting: Collection[str]
    ) -> StopReplica:
        partitions: list[StopReplicaPartition] = []
        for (topic, index), is_deleted in self._stops[broker].items():
            partition = image.partition(topic, index)
            epoch = NO_EPOCH
            if topic in deleting:
                epoch = EPOCH_DURING_DELETE
            elif partition is not None and partition.state is not None:
                epoch = partition.state.leader_epoch
            partitions.append(StopReplicaPartition(topic, index, epoch, is_deleted))
        return StopReplica(
            controller_id,
            image.controller_epoch,
            image.brokers[broker].broker_epoch,
            tuple(partitions),
        )


def describe_partitions(
    image: Image, partitions: Iterable[TopicPartition], deleting: Collection[str]
) -> Iterator[UpdateMetadataPartition]:
    """Metadata of those that ever had a leader."""
    for topic, index in partitions:
        partition = image.partition(topic, index)
        if partition is None or partition.state is None:
            continue
        state = partition.state
        if topic in deleting:
            state = replace(state, leader=LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0)
        yield UpdateMetadataPartition(
            topic=topic,
            topic_id=_topic_id(image, topic),
            partition=index,
            state=state,
            replicas=partition.replicas,
            offline_replicas=tuple(
                one for one in partition.replicas if not image.is_online(one, topic, index)
            ),
        )


def build_update_metadata(
    image: Image,
    controller_id: int,
    broker: int,
    partitions: tuple[UpdateMetadataPartition, ...],
) -> UpdateMetadata:
    """A request for a registered broker."""
    return UpdateMetadata(
        controller_id,
        image.controller_epoch,
        image.brokers[broker].broker_epoch,
        partitions,
        tuple(image.brokers[one] for one in sorted(image.brokers)),
    )


def apply_update_metadata(image: Image, request: UpdateMetadata) -> Image:
    """A broker's own picture after the request; deleted topics leave it.

    cost  one copy of the topics, whatever the number of partitions
    """
    changed: dict[str, dict[int, PartitionImage]] = {}
    ids: dict[str, UUID] = {}
    gone: dict[str, None] = {}
    for told in request.partitions:
        if told.state.leader == LEADER_DURING_DELETE:
            gone[told.topic] = None
            continue
        partitions = changed.get(told.topic)
        if partitions is None:
            known = image.topics.get(told.topic)
            is_same = known is not None and told.topic_id in (known.topic_id, NO_TOPIC_ID)
            partitions = dict(known.partitions) if known is not None and is_same else {}
            changed[told.topic] = partitions
            ids[told.topic] = known.topic_id if known is not None and is_same else told.topic_id
        partitions[told.partition] = PartitionImage(
            told.partition,
            told.replicas,
            told.state,
            offline_replicas=told.offline_replicas,
        )
    if changed or gone:
        image = image.with_topics(
            (TopicImage(name, ids[name], changed[name]) for name in changed), gone
        )
    return replace(
        image,
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        brokers={broker.broker_id: broker for broker in request.brokers},
    )


def _topic_id(image: Image, topic: str) -> UUID:
    found = image.topics.get(topic)
    return found.topic_id if found is not None else NO_TOPIC_ID
