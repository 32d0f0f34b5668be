"""The topics of the metadata image as groups use them, and versions that show when they change.

Pure.  `refresh` reads the latest image; one version counts its changes, another one those that
have created topics.

The hash of a group's topics shows whether a new assignment is needed.  It is not Kafka's, which is
XXH3: a coordinator compares the stored hash only with its own, so a group that moves
between releases begins one more epoch, with no other effect.

Source: Kafka 4.3's GroupMetadataManager.onMetadataUpdate, Utils.computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import TopicFacts
from odradek.controller.image.image import Image, TopicImage

_HASH: Final = Struct(">q")
_COUNT: Final = Struct(">i")


class _CachedTopic(NamedTuple):
    image: TopicImage
    facts: TopicFacts
    digest: bytes


class TopicDirectory:
    """Topics by name and by id.

    image  returns the latest metadata image, which is immutable
    """

    def __init__(self, image: Callable[[], Image]) -> None:
        self.version = 0
        """Grows when topics, partitions or their leaders have changed."""
        self.names_version = 0
        """Grows when topics were created."""
        self._image = image
        self._topics: Mapping[str, TopicImage] | None = None
        self._names: Mapping[Uuid, str] = {}
        self._racks: dict[int, str | None] = {}
        self._cached_topics: dict[str, _CachedTopic] = {}

    def refresh(self) -> int:
        """Read the latest image; returns `version`."""
        image = self._image()
        if image.topics is not self._topics:
            before = self._topics
            if before is None or not image.topics.keys() <= before.keys():
                self.names_version += 1
            self._topics = image.topics
            self._names = image.topic_names
            self._racks = {broker_id: broker.rack for broker_id, broker in image.brokers.items()}
            self._cached_topics = {
                name: cached_topic
                for name, cached_topic in self._cached_topics.items()
                if image.topics.get(name) is cached_topic.image
            }
            self.version += 1
        return self.version

    def names(self) -> Iterable[str]:
        """The names of all topics at the last `refresh`; the next one does not change them."""
        return () if self._topics is None else self._topics

    def by_name(self, name: str) -> TopicFacts | None:
        cached_topic = self._find(name)
        return None if cached_topic is None else cached_topic.facts

    def select(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """The topics that exist, by name."""
        return {name: cached_topic.facts for name in names if (cached_topic := self._find(name))}

    def by_id(self, topic_id: Uuid) -> TopicFacts | None:
        name = self._names.get(topic_id)
        return None if name is None else self.by_name(name)

    def hash_of(self, names: Iterable[str]) -> int:
        """The hash of the topics that exist; 0 if none does."""
        digests = [
            cached_topic.digest for name in sorted(names) if (cached_topic := self._find(name))
        ]
        if not digests:
            return 0
        (number,) = _HASH.unpack(blake2b(b"".join(digests), digest_size=_HASH.size).digest())
        return int(number)

    def _find(self, name: str) -> _CachedTopic | None:
        cached_topic = self._cached_topics.get(name)
        if cached_topic is None:
            topic = None if self._topics is None else self._topics.get(name)
            if topic is None:
                return None
            facts = self._facts(topic)
            cached_topic = self._cached_topics[name] = _CachedTopic(topic, facts, _digest(facts))
        return cached_topic

    def _facts(self, topic: TopicImage) -> TopicFacts:
        racks = []
        for index in sorted(topic.partitions):
            replica_racks = [
                self._racks.get(replica) for replica in topic.partitions[index].replicas
            ]
            racks.append(tuple(sorted(rack for rack in replica_racks if rack is not None)))
        return TopicFacts(topic.topic_id, topic.name, len(topic.partitions), tuple(racks))


def _digest(facts: TopicFacts) -> bytes:
    hashing = blake2b(facts.topic_id.bytes, digest_size=_HASH.size)
    hashing.update(facts.name.encode())
    hashing.update(_COUNT.pack(facts.partition_count))
    for racks in facts.racks:
        hashing.update(_COUNT.pack(len(racks)))
        for rack in racks:
            name = rack.encode()
            hashing.update(_COUNT.pack(len(name)) + name)
    return hashing.digest()
