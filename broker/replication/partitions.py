"""The partitions that this broker has a replica of, by topic and number."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import BrokerError, ErrorCode


class Partitions:
    """A lookup.  Only `Leadership` adds and removes."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Partition]] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        partitions = self._by_topic.get(topic)
        return partitions.get(index) if partitions is not None else None

    def topic(self, topic: str) -> dict[int, Partition]:
        """The partitions of one topic, by index."""
        return self._by_topic.get(topic, {})

    def all(self) -> Iterator[Partition]:
        """Every replica, in the order in which topics were added."""
        for partitions in self._by_topic.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._by_topic.values())

    def held(self, topic: str, index: int) -> Partition:
        """The replica of this broker.

        raises  BrokerError UNKNOWN_TOPIC_OR_PARTITION
        """
        partitions = self._by_topic.get(topic)
        partition = partitions.get(index) if partitions is not None else None
        if partition is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def add(self, partition: Partition) -> None:
        self._by_topic.setdefault(partition.topic, {})[partition.index] = partition

    def remove(self, topic: str, index: int) -> Partition | None:
        partitions = self._by_topic.get(topic)
        if partitions is None:
            return None
        partition = partitions.pop(index, None)
        if partition is not None and not partitions:
            del self._by_topic[topic]
        return partition
