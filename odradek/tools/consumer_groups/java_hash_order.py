"""Partitions, and the order in which Kafka's own tool comes to speak of things.

It keeps groups and partitions in Java's hash maps and prints them as those give them back.  Rows of
`--reset-offsets` share one line (as in Kafka 3.9), so the same lines need the same order.
Source: java.util.HashMap, String.hashCode; Kafka's TopicPartition.hashCode.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

CAPACITY: Final = 16
"""Buckets of a map that was given none."""
_MASK: Final = 0xFFFF_FFFF


class TopicPartition(NamedTuple):
    """One partition."""

    topic: str
    partition_index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition_index}"


Key = TypeVar("Key", str, TopicPartition)


def string_hash(text: str) -> int:
    """Java's hash of a string, 0 to 2**32 - 1; it is made of UTF-16 units."""
    result = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        result = (31 * result + int.from_bytes(data[position : position + 2], "big")) & _MASK
    return result


def partition_hash(partition: TopicPartition) -> int:
    """Kafka's hash of a partition, 0 to 2**32 - 1."""
    return (31 * (31 + partition.partition_index) + string_hash(partition.topic)) & _MASK


def in_hash_order(keys: Iterable[Key], capacity: int = CAPACITY) -> list[Key]:
    """Different keys as a hash map gives them back that they were put into one after the other.

    capacity  of the map when it was made, a power of two; it doubles when it is three quarters full
    """
    different = list(dict.fromkeys(keys))
    while len(different) * 4 > capacity * 3:
        capacity *= 2

    def bucket(key: Key) -> int:
        number = string_hash(key) if isinstance(key, str) else partition_hash(key)
        return (number ^ (number >> 16)) & (capacity - 1)

    return sorted(different, key=bucket)
