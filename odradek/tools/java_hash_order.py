"""The iteration order of java.util.HashMap, in which Kafka's tools print groups and partitions.

Kafka's tools keep groups and partitions in hash maps and print them in iteration order.  Scripts
that compare output line by line need the same order here.
Source: java.util.HashMap, String.hashCode; Kafka's TopicPartition.hashCode.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from odradek.protocol.topic_partition import TopicPartition

CAPACITY: Final = 16
"""Buckets of a HashMap that is created without a capacity."""
_MASK: Final = 0xFFFF_FFFF


Key = TypeVar("Key", str, int, TopicPartition)


def string_hash(text: str) -> int:
    """String.hashCode as an unsigned 32-bit number; computed over UTF-16 code units."""
    result = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        result = (31 * result + int.from_bytes(data[position : position + 2], "big")) & _MASK
    return result


def partition_hash(partition: TopicPartition) -> int:
    """TopicPartition.hashCode as an unsigned 32-bit number."""
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & _MASK


def _hash(key: str | int | TopicPartition) -> int:
    if isinstance(key, str):
        return string_hash(key)
    return key & _MASK if isinstance(key, int) else partition_hash(key)


def in_hash_order(keys: Iterable[Key], capacity: int = CAPACITY) -> list[Key]:
    """The distinct keys in the iteration order of a HashMap into which they were put one by one.

    capacity  initial capacity of the map, a power of two; doubled while it is over three quarters
              full
    """
    different = list(dict.fromkeys(keys))
    while len(different) * 4 > capacity * 3:
        capacity *= 2

    def bucket(key: Key) -> int:
        number = _hash(key)
        return (number ^ (number >> 16)) & (capacity - 1)

    return sorted(different, key=bucket)
