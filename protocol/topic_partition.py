"""The name of a partition: topic and number."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """Equal to, and hashed as, the plain tuple `(topic, partition)`."""

    topic: str
    partition: int
