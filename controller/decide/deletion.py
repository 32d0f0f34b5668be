"""The state machine of topic deletion.  Pure.

Per replica: none -> STARTED -> SUCCESSFUL, or INELIGIBLE when its broker is offline or returned an
error.  The deletion of a topic with an ineligible replica halts until a broker with one of its
replicas registers, or such a replica is held again (its log directory has space).  When all
replicas are SUCCESSFUL the znodes of the topic are removed.
Source: Kafka's TopicDeletionManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from odradek.controller.image.image import Image
from odradek.protocol.topic_partition import TopicPartition

Replica = tuple[str, int, int]
"""(topic, partition, broker)."""


class ReplicaDeletion(Enum):
    STARTED = "started"
    SUCCESSFUL = "successful"
    INELIGIBLE = "ineligible"


class DeleteReplicas(NamedTuple):
    """Send all brokers the partitions with leader -2, then the brokers of `replicas` StopReplica.

    May be repeated: brokers respond without an error for a replica that they do not have.
    """

    topic: str
    replicas: tuple[Replica, ...]


class RemoveTopic(NamedTuple):
    """Every replica is deleted: remove the topic's znodes, the pending deletion last."""

    topic: str


DeletionEffect = DeleteReplicas | RemoveTopic


class Deletions(Collection[str]):
    """The topics that are being deleted, in the order in which they were queued, and how far their
    replicas are."""

    __slots__ = ("_halted", "_replicas")

    def __init__(self) -> None:
        self._replicas: dict[str, dict[Replica, ReplicaDeletion]] = {}
        self._halted: dict[str, None] = {}

    def __contains__(self, topic: object) -> bool:
        return topic in self._replicas

    def __iter__(self) -> Iterator[str]:
        return iter(self._replicas)

    def __len__(self) -> int:
        return len(self._replicas)

    def is_deleting(self, replica: Replica) -> bool:
        """Whether its broker has deleted it, or was sent a StopReplica that deletes it."""
        how = self._replicas.get(replica[0], {}).get(replica)
        return how in (ReplicaDeletion.STARTED, ReplicaDeletion.SUCCESSFUL)

    def clear(self) -> None:
        """A controller takes over: what was sent before need not have arrived."""
        self._replicas.clear()
        self._halted.clear()

    def enqueue(self, topics: Iterable[str]) -> None:
        """Begin deletions; topics that are queued already keep their state."""
        for topic in topics:
            self._replicas.setdefault(topic, {})

    def forget(self, topic: str) -> None:
        """The znodes of the topic are removed."""
        self._replicas.pop(topic, None)
        self._halted.pop(topic, None)

    def on_deleted(self, replicas: Iterable[Replica]) -> None:
        """Brokers responded that they deleted these replicas.

        One that has counted as offline since then, as a full disk refused its log, is gone as well:
        a deletion that halted for it goes on.
        """
        for replica in replicas:
            deletions = self._replicas.get(replica[0])
            if deletions is not None and replica in deletions:
                if deletions[replica] is ReplicaDeletion.INELIGIBLE:
                    self._halted.pop(replica[0], None)
                deletions[replica] = ReplicaDeletion.SUCCESSFUL

    def on_failed(self, replicas: Iterable[Replica]) -> None:
        """Brokers responded with an error, or went offline before they responded."""
        for replica in replicas:
            deletions = self._replicas.get(replica[0])
            if deletions is not None and deletions.get(replica) is not ReplicaDeletion.SUCCESSFUL:
                deletions[replica] = ReplicaDeletion.INELIGIBLE
                self._halted[replica[0]] = None

    def on_online(self, replicas: Iterable[Replica]) -> bool:
        """Brokers hold these replicas: deletions that failed there are tried again; whether any."""
        halted = len(self._halted)
        for replica in replicas:
            deletions = self._replicas.get(replica[0])
            if deletions is not None and deletions.get(replica) is ReplicaDeletion.INELIGIBLE:
                self._halted.pop(replica[0], None)
        return len(self._halted) < halted

    def on_brokers_started(self, image: Image, brokers: Iterable[int]) -> None:
        """Brokers registered: deletions of topics with a replica there are tried again."""
        for topic, _ in image.partitions_on(brokers):
            self._halted.pop(topic, None)

    def resume(self, image: Image) -> list[DeletionEffect]:
        """The steps that can be done now; the replicas in them count as STARTED."""
        effects: list[DeletionEffect] = []
        for topic in list(self._replicas):
            effect = self._step(topic, image)
            if effect is not None:
                effects.append(effect)
        return effects

    def _step(self, topic: str, image: Image) -> DeletionEffect | None:
        deletions = self._replicas[topic]
        replicas = replicas_of(image, topic)
        progress = [deletions.get(replica) for replica in replicas]
        if progress.count(ReplicaDeletion.SUCCESSFUL) == len(replicas):
            return RemoveTopic(topic)
        if ReplicaDeletion.STARTED in deletions.values() or topic in self._halted:
            return None
        to_delete: list[Replica] = []
        # A look-up each: there may be thousands of replicas, and few brokers.
        live = {broker.broker_id: None for broker in image.live_brokers()}
        directories = image.offline_directories
        for replica, how in zip(replicas, progress, strict=True):
            if how is ReplicaDeletion.SUCCESSFUL:
                continue
            _, partition, broker = replica
            if broker in live and (
                broker not in directories or image.is_online(broker, topic, partition)
            ):
                deletions[replica] = ReplicaDeletion.STARTED
                to_delete.append(replica)
            else:
                deletions[replica] = ReplicaDeletion.INELIGIBLE
                self._halted[topic] = None
        return DeleteReplicas(topic, tuple(to_delete))


def partition_of(replica: Replica) -> TopicPartition:
    return TopicPartition(replica[0], replica[1])


def replicas_of(image: Image, topic: str) -> Sequence[Replica]:
    """All replicas of a topic; none when the topic is unknown."""
    topic_image = image.topics.get(topic)
    if topic_image is None:
        return ()
    return [
        (topic, index, broker)
        for index in sorted(topic_image.partitions)
        for broker in topic_image.partitions[index].replicas
    ]
