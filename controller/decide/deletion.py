"""The steps by which a topic goes: a small machine of the controller.  Pure.

Per replica: none -> STARTED -> SUCCESSFUL, or INELIGIBLE when its broker is away or refused.  A
topic with such a replica halts until a broker that holds one of its replicas comes (back); when
all replicas are SUCCESSFUL the topic's znodes may go.
Source: Kafka's TopicDeletionManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from odradek.controller.image import Image

Replica = tuple[str, int, int]
"""(topic, partition, broker)."""


class ReplicaDeletion(Enum):
    """How far a replica is."""

    STARTED = "started"
    SUCCESSFUL = "successful"
    INELIGIBLE = "ineligible"


@dataclass(frozen=True, slots=True)
class DeleteReplicas:
    """Tell all brokers that the topic has no leaders (leader -2), then have the replicas deleted.

    May be told twice; brokers answer success for a replica that is gone.
    """

    topic: str
    replicas: tuple[Replica, ...]


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """Every replica is gone: remove the topic's znodes, the wish for its deletion last."""

    topic: str


DeletionEffect = DeleteReplicas | RemoveTopic


class Deletions:
    """Topics that are to go."""

    __slots__ = ("_halted", "_replicas")

    def __init__(self) -> None:
        self._replicas: dict[str, dict[Replica, ReplicaDeletion]] = {}
        self._halted: dict[str, None] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._replicas

    def topics(self) -> list[str]:
        """What is queued, in order of arrival."""
        return list(self._replicas)

    def enqueue(self, topics: Iterable[str]) -> None:
        """Somebody wants these topics deleted."""
        for topic in topics:
            self._replicas.setdefault(topic, {})

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        self._replicas.pop(topic, None)
        self._halted.pop(topic, None)

    def on_deleted(self, replicas: Iterable[Replica]) -> None:
        """Brokers answered that these replicas are gone."""
        for replica in replicas:
            known = self._replicas.get(replica[0])
            if known is not None and known.get(replica) is ReplicaDeletion.STARTED:
                known[replica] = ReplicaDeletion.SUCCESSFUL

    def on_failed(self, replicas: Iterable[Replica]) -> None:
        """Brokers refused, or went away before they answered."""
        for replica in replicas:
            known = self._replicas.get(replica[0])
            if known is not None and known.get(replica) is not ReplicaDeletion.SUCCESSFUL:
                known[replica] = ReplicaDeletion.INELIGIBLE
                self._halted[replica[0]] = None

    def on_brokers_started(self, image: Image, brokers: Iterable[int]) -> None:
        """Brokers came: topics with a replica there are tried again."""
        for topic, _ in image.partitions_on(brokers):
            self._halted.pop(topic, None)

    def resume(self, image: Image) -> list[DeletionEffect]:
        """What can be done now."""
        effects: list[DeletionEffect] = []
        for topic in list(self._replicas):
            effect = self._step(topic, image)
            if effect is not None:
                effects.append(effect)
        return effects

    def _step(self, topic: str, image: Image) -> DeletionEffect | None:
        known = self._replicas[topic]
        replicas = replicas_of(image, topic)
        if all(known.get(one) is ReplicaDeletion.SUCCESSFUL for one in replicas):
            return RemoveTopic(topic)
        is_started = any(how is ReplicaDeletion.STARTED for how in known.values())
        if is_started or topic in self._halted:
            return None
        to_delete: list[Replica] = []
        for replica in replicas:
            if known.get(replica) is ReplicaDeletion.SUCCESSFUL:
                continue
            if image.is_online(replica[2], topic, replica[1]):
                known[replica] = ReplicaDeletion.STARTED
                to_delete.append(replica)
            else:
                known[replica] = ReplicaDeletion.INELIGIBLE
                self._halted[topic] = None
        return DeleteReplicas(topic, tuple(to_delete))


def replicas_of(image: Image, topic: str) -> Sequence[Replica]:
    """All replicas of a topic; none when it is not known."""
    found = image.topics.get(topic)
    if found is None:
        return ()
    return [
        (topic, index, broker)
        for index in sorted(found.partitions)
        for broker in found.partitions[index].replicas
    ]
