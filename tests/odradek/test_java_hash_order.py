"""Java's hash maps, held against hashes and orders that Java and Apache's tool have shown."""

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
def test_strings_have_the_hash_that_java_gives_them(text: str, number: int) -> None:
    assert string_hash(text) == number


def test_a_partition_has_the_hash_that_kafka_gives_it() -> None:
    assert partition_hash(TopicPartition("a", 3)) == 31 * 34 + 97


def test_partitions_come_as_apaches_tool_shows_them() -> None:
    twelve = [TopicPartition("twelve", index) for index in range(12)]
    shown = [11, 0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9]
    assert [partition.partition for partition in in_hash_order(twelve)] == shown
    assert in_hash_order(reversed(twelve)) == in_hash_order(twelve)


def test_names_of_one_bucket_stay_in_their_order_until_the_map_grows() -> None:
    assert in_hash_order(["second", "empty"]) == ["second", "empty"]
    assert in_hash_order(["empty", "second"]) == ["empty", "second"]
    filled = [chr(97 + index) for index in range(11)]
    assert in_hash_order(["q", "a"]) == ["q", "a"]
    assert in_hash_order(["q", *filled, "l"])[:1] != ["q"]


@given(st.lists(st.text(max_size=5)))
def test_every_key_comes_back_once(keys: list[str]) -> None:
    ordered = in_hash_order(keys)
    assert sorted(ordered) == sorted(set(keys))
    assert in_hash_order(ordered) == ordered
