"""What handlers ask about topics."""

from __future__ import annotations

import pytest

from odradek.broker.topics import abs_java, is_valid_topic_name, java_string_hash


@pytest.mark.parametrize(
    ("group", "hash_code", "partition"),
    [("my-group", -1906497762, 12), ("console-consumer-1", 35782224, 24), ("é", 233, 33)],
)
def test_group_is_mapped_to_the_partition_that_java_computes(
    group: str, hash_code: int, partition: int
) -> None:
    assert java_string_hash(group) == hash_code
    assert abs_java(hash_code) % 50 == partition


def test_absolute_value_of_the_smallest_integer_is_zero() -> None:
    assert abs_java(-(2**31)) == 0


@pytest.mark.parametrize("name", ["a", "a.b_c-9", "x" * 249, "..."])
def test_names_that_kafka_allows(name: str) -> None:
    assert is_valid_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n"])
def test_names_that_kafka_refuses(name: str) -> None:
    assert not is_valid_topic_name(name)
