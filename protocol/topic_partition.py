"""What topics and partitions are identified by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

ZERO_UUID: Final = UUID(int=0)
"""In place of a topic id: there is none, or it is not known."""


class TopicPartition(NamedTuple):
    """Equal to, and hashed as, the plain tuple `(topic, partition)`."""

    topic: str
    partition: int


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic -> its partitions, both in the given order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
