"""Control requests (LeaderAndIsr, UpdateMetadata, StopReplica) as plain values.

The active controller sends them to each broker in order, one at a time; a broker must treat a
repeated one as harmless.  Other brokers get them as the wire requests of these names, the broker
that is the controller gets the values.  `ControlBatch` collects the requests that one event causes
and returns them in sending order: LeaderAndIsr, then UpdateMetadata, then StopReplica.

What is `async` here is part of a procedure of a `SerialQueue` (`runtime/work.py`).
Source: KIP-380, KIP-497, KIP-516, KIP-570; Kafka's ControllerBrokerRequestBatch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from odradek.controller.image.image import (
    LEADER_DURING_DELETE,
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import ZERO_UUID, TopicPartition
from odradek.runtime.pending import Pending
from odradek.runtime.work import pause, shares

EPOCH_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1


class LeaderAndIsrPartition(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int
    state: PartitionState
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    is_new: bool
    """The partition was just created: no broker has a log of it yet."""


class LeaderAndIsr(NamedTuple):
    """The receiver becomes leader or follower of these partitions."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    """Epoch of the receiver, as the controller knows it; the receiver refuses one below its own."""
    partitions: tuple[LeaderAndIsrPartition, ...]
    leaders: tuple[BrokerImage, ...]
    """The registered brokers among the leaders of `partitions`."""


class UpdateMetadataPartition(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int
    state: PartitionState
    """Leader -2 (`LEADER_DURING_DELETE`): the receiver removes the topic from its image."""
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class UpdateMetadata(NamedTuple):
    """All registered brokers, and the partitions that changed."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[UpdateMetadataPartition, ...]
    brokers: tuple[BrokerImage, ...]
    is_full: bool = False
    """There are no other topics: a receiver removes those that it knows besides.

    Differs from Kafka: in ZooKeeper mode it has no such request, and brokers keep the metadata of a
    topic whose end they were not sent, because the controller ended then.
    """


class StopReplicaPartition(NamedTuple):
    topic: str
    partition: int
    leader_epoch: int
    """-2 when the topic is being deleted, -1 when unknown; the receiver fences any other epoch
    below the one that it knows."""
    is_deleted: bool
    """The receiver removes the log of the replica, too."""


class StopReplica(NamedTuple):
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[StopReplicaPartition, ...]


ControlRequest = LeaderAndIsr | UpdateMetadata | StopReplica


class ControlResponse(NamedTuple):
    """The response of a broker; partitions without an error may be left out."""

    error: ErrorCode = ErrorCode.NONE
    partition_errors: Mapping[TopicPartition, ErrorCode] = MappingProxyType({})
    log_epochs: Mapping[TopicPartition, int] = MappingProxyType({})
    """Partition -> latest leader epoch of its log, where LeaderAndIsr named a lower one and was
    refused for that."""


class ControlRequestHandler(Protocol):
    """Applies control requests on a broker; implemented by `broker.replication`."""

    def apply(self, request: ControlRequest) -> Pending[ControlResponse]:
        """Apply a request on this broker; the next one is passed when this one is done.

        The epochs are checked, an UpdateMetadata is in the image already, and so are the configs
        of all topics that the request names.
        """


class ControlRequestSender(Protocol):
    """Carries requests of the active controller to the other brokers.

    Source: Kafka's ControllerChannelManager.
    """

    def set_brokers(self, brokers: Mapping[int, BrokerImage]) -> None:
        """These brokers are registered; none, when this broker is no longer the controller.

        What was sent to other brokers, and to earlier registrations of these, is dropped.
        """

    def send(
        self, broker_id: int, request: ControlRequest, respond: Callable[[ControlResponse], None]
    ) -> None:
        """Send to a registered broker, in order, until it responds or its registration ends.

        respond  must not be called within this call
        """


class ControlBatch:
    """The control requests that one event causes, collected per broker."""

    def __init__(self) -> None:
        self._leader_and_isr: dict[int, dict[TopicPartition, tuple[PartitionImage, bool]]] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._metadata_brokers: dict[int, None] = {}
        self._stops: dict[int, dict[TopicPartition, bool]] = {}
        self._is_metadata_full = False

    def add_leader_and_isr(
        self, brokers: Iterable[int], topic: str, partition: PartitionImage, *, is_new: bool
    ) -> None:
        """LeaderAndIsr of the partition for `brokers`, UpdateMetadata of it for all brokers."""
        assert partition.state is not None, "LeaderAndIsr carries a state"
        key = TopicPartition(topic, partition.partition)
        for broker in brokers:
            partitions = self._leader_and_isr.setdefault(broker, {})
            was_new = key in partitions and partitions[key][1]
            partitions[key] = (partition, is_new or was_new)
        self._metadata[key] = None

    def add_metadata(
        self, partitions: Iterable[TopicPartition] = (), brokers: Iterable[int] = ()
    ) -> None:
        """UpdateMetadata of the partitions for all brokers.

        brokers  get an UpdateMetadata also when no partition is in it
        """
        for partition in partitions:
            self._metadata[partition] = None
        for broker in brokers:
            self._metadata_brokers[broker] = None

    def add_all_metadata(self, image: Image, brokers: Iterable[int]) -> None:
        """Add UpdateMetadata of all partitions of the image; a broker drops those not named."""
        self.add_metadata(
            (TopicPartition(topic, partition.partition) for topic, partition in image.partitions()),
            brokers,
        )
        self._is_metadata_full = True

    def add_stop(self, broker: int, partition: TopicPartition, *, is_deleted: bool) -> None:
        """StopReplica for one broker; a deletion that was added before stays one."""
        stops = self._stops.setdefault(broker, {})
        stops[partition] = is_deleted or stops.get(partition, False)

    async def requests(
        self, image: Image, controller_id: int, deleting: Collection[str]
    ) -> list[tuple[int, ControlRequest]]:
        """(broker, request) in sending order; only for registered brokers.

        deleting  topics that are being deleted: their partitions are sent with leader -2
        """
        requests: list[tuple[int, ControlRequest]] = []
        for broker in sorted(self._leader_and_isr):
            if broker in image.brokers:
                request = await self._request_leader_and_isr(image, controller_id, broker)
                requests.append((broker, request))
        brokers = dict(self._metadata_brokers)
        if self._metadata:
            brokers |= dict.fromkeys(image.brokers)
        described: list[UpdateMetadataPartition] = []
        for share in shares(list(self._metadata)):
            await pause(len(share))
            described += describe_partitions(image, share, deleting)
        partitions = tuple(described)
        for broker in sorted(brokers):
            if broker in image.brokers:
                update = build_update_metadata(image, controller_id, broker, partitions)
                requests.append((broker, update._replace(is_full=self._is_metadata_full)))
        for broker in sorted(self._stops):
            if broker in image.brokers:
                stop = await self._request_stops(image, controller_id, broker, deleting)
                requests.append((broker, stop))
        return requests

    async def _request_leader_and_isr(
        self, image: Image, controller_id: int, broker: int
    ) -> LeaderAndIsr:
        partitions: list[LeaderAndIsrPartition] = []
        leaders: dict[int, BrokerImage] = {}
        for share in shares(list(self._leader_and_isr[broker].items())):
            await pause(len(share))
            for (topic, index), (partition, is_new) in share:
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

    async def _request_stops(
        self, image: Image, controller_id: int, broker: int, deleting: Collection[str]
    ) -> StopReplica:
        partitions: list[StopReplicaPartition] = []
        for share in shares(list(self._stops[broker].items())):
            await pause(len(share))
            for (topic, index), is_deleted in share:
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
    """Metadata of those partitions that have a state."""
    for topic, index in partitions:
        partition = image.partition(topic, index)
        if partition is None or partition.state is None:
            continue
        state = partition.state
        if topic in deleting:
            state = state._replace(leader=LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0)
        yield UpdateMetadataPartition(
            topic=topic,
            topic_id=_topic_id(image, topic),
            partition=index,
            state=state,
            replicas=partition.replicas,
            offline_replicas=tuple(
                replica
                for replica in partition.replicas
                if not image.is_online(replica, topic, index)
            ),
        )


def build_update_metadata(
    image: Image, controller_id: int, broker: int, partitions: tuple[UpdateMetadataPartition, ...]
) -> UpdateMetadata:
    """The request for one registered broker, with all brokers of the image."""
    return UpdateMetadata(
        controller_id,
        image.controller_epoch,
        image.brokers[broker].broker_epoch,
        partitions,
        tuple(image.brokers[broker_id] for broker_id in sorted(image.brokers)),
    )


def with_removed_topics(image: Image, request: UpdateMetadata) -> UpdateMetadata:
    """A full request with the partitions that it removes from a broker's image, leader -2."""
    if not request.is_full:
        return request
    named = dict.fromkeys(partition.topic for partition in request.partitions)
    removed = (
        TopicPartition(topic, index)
        for topic, topic_image in image.topics.items()
        if topic not in named
        for index in topic_image.partitions
    )
    gone = tuple(describe_partitions(image, removed, image.topics))
    return request._replace(partitions=(*request.partitions, *gone), is_full=False)


def deleted_topics(request: UpdateMetadata) -> dict[str, None]:
    """The topics that the receiver removes from its image."""
    return {
        row.topic: None for row in request.partitions if row.state.leader == LEADER_DURING_DELETE
    }


def apply_update_metadata(image: Image, request: UpdateMetadata) -> Image:
    """A broker's image after the request; topics that are being deleted are removed from it.

    cost  one copy of the dict of topics, whatever the number of partitions
    """
    changed: dict[str, dict[int, PartitionImage]] = {}
    ids: dict[str, UUID] = {}
    deleted: dict[str, None] = {}
    for partition in request.partitions:
        if partition.state.leader == LEADER_DURING_DELETE:
            deleted[partition.topic] = None
            continue
        partitions = changed.get(partition.topic)
        if partitions is None:
            topic_image = image.topics.get(partition.topic)
            is_same = topic_image is not None and partition.topic_id in (
                topic_image.topic_id,
                ZERO_UUID,
            )
            partitions = dict(topic_image.partitions) if topic_image is not None and is_same else {}
            changed[partition.topic] = partitions
            ids[partition.topic] = (
                topic_image.topic_id if topic_image is not None and is_same else partition.topic_id
            )
        partitions[partition.partition] = PartitionImage(
            partition.partition,
            partition.replicas,
            partition.state,
            offline_replicas=partition.offline_replicas,
        )
    if changed or deleted:
        image = image.with_topics(
            (TopicImage(name, ids[name], changed[name]) for name in changed), deleted
        )
    return image._replace(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        brokers={broker.broker_id: broker for broker in request.brokers},
    )


def _topic_id(image: Image, topic: str) -> UUID:
    topic_image = image.topics.get(topic)
    return topic_image.topic_id if topic_image is not None else ZERO_UUID
