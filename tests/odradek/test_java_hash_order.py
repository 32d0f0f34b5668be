"""The order of Java's hash maps, compared with hashes of Java and the output of Apache's tool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.java_hash_order import (
    in_hash_order,
    partition_hash,
    string_hash,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", 2**31),
        ("\U0001f600", 1772899),
    ],
)
def test_string_hash_equals_javas(text: str, number: int) -> None:
    assert string_hash(text) == number


def test_partition_hash_equals_kafkas() -> None:
    assert partition_hash(TopicPartition("a", 3)) == 31 * 34 + 97


def test_partitions_are_in_the_order_of_apaches_tool() -> None:
    twelve = [TopicPartition("twelve", index) for index in range(12)]
    shown = [11, 0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9]
    assert [partition.partition for partition in in_hash_order(twelve)] == shown
    assert in_hash_order(reversed(twelve)) == in_hash_order(twelve)


def test_keys_of_one_bucket_keep_insertion_order_until_the_map_grows() -> None:
    assert in_hash_order(["second", "empty"]) == ["second", "empty"]
    assert in_hash_order(["empty", "second"]) == ["empty", "second"]
    filled = [chr(97 + index) for index in range(11)]
    assert in_hash_order(["q", "a"]) == ["q", "a"]
    assert in_hash_order(["q", *filled, "l"])[:1] != ["q"]


@given(st.lists(st.text(max_size=5)))
def test_every_distinct_key_is_returned_once(keys: list[str]) -> None:
    ordered = in_hash_order(keys)
    assert sorted(ordered) == sorted(set(keys))
    assert in_hash_order(ordered) == ordered
