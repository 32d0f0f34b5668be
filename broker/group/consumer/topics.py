"""The cluster's topics as groups see them: what exists, and whether anything of it has changed.

Pure.  `refresh` looks at the newest picture; the versions count how often it was another one, and
how often it had topics that the last one had not.

The hash of a topic and of a group's topics tells whether an assignment must be made anew.  Differs
from Kafka, whose hash is XXH3: a coordinator only compares what it finds stored with what it makes
itself, so a group that moves between releases gets one more epoch, and nothing else.

Source: Kafka 4.3's GroupMetadataManager.onMetadataUpdate, Utils.computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID as Uuid

from odradek.broker.group.consumer.model import TopicFacts
from odradek.controller.image import Image, TopicImage

_HASH: Final = Struct(">q")
_COUNT: Final = Struct(">i")


class _Known(NamedTuple):
    image: TopicImage
    facts: TopicFacts
    digest: bytes


class TopicDirectory:
    """Topics by name and by id.

    picture  the newest picture of the cluster, which is never changed in place
    """

    def __init__(self, picture: Callable[[], Image]) -> None:
        self.version = 0
        """Another one whenever topics, partitions or their leaders have changed."""
        self.names_version = 0
        """Another one whenever topics were created."""
        self._picture = picture
        self._topics: Mapping[str, TopicImage] | None = None
        self._names: Mapping[Uuid, str] = {}
        self._racks: dict[int, str | None] = {}
        self._known: dict[str, _Known] = {}

    def refresh(self) -> int:
        """Look at the newest picture; its version."""
        image = self._picture()
        if image.topics is not self._topics:
            before = self._topics
            if before is None or not image.topics.keys() <= before.keys():
                self.names_version += 1
            self._topics = image.topics
            self._names = image.topic_names
            self._racks = {broker_id: one.rack for broker_id, one in image.brokers.items()}
            self._known = {
                name: known
                for name, known in self._known.items()
                if image.topics.get(name) is known.image
            }
            self.version += 1
        return self.version

    def names(self) -> Iterable[str]:
        """All topics."""
        return () if self._topics is None else self._topics

    def by_name(self, name: str) -> TopicFacts | None:
        """A topic."""
        known = self._find(name)
        return None if known is None else known.facts

    def select(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Those of the topics that exist, by name."""
        return {name: known.facts for name in names if (known := self._find(name))}

    def by_id(self, topic_id: Uuid) -> TopicFacts | None:
        """A topic."""
        name = self._names.get(topic_id)
        return None if name is None else self.by_name(name)

    def hash_of(self, names: Iterable[str]) -> int:
        """Of those of the topics that exist; 0 when none does."""
        digests = [known.digest for name in sorted(names) if (known := self._find(name))]
        if not digests:
            return 0
        (number,) = _HASH.unpack(blake2b(b"".join(digests), digest_size=_HASH.size).digest())
        return int(number)

    def _find(self, name: str) -> _Known | None:
        known = self._known.get(name)
        if known is None:
            topic = None if self._topics is None else self._topics.get(name)
            if topic is None:
                return None
            facts = self._facts(topic)
            known = self._known[name] = _Known(topic, facts, _digest(facts))
        return known

    def _facts(self, topic: TopicImage) -> TopicFacts:
        racks = []
        for index in sorted(topic.partitions):
            found = [self._racks.get(replica) for replica in topic.partitions[index].replicas]
            racks.append(tuple(sorted(one for one in found if one is not None)))
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
