"""What handlers ask about topics."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.broker import topics
from odradek.broker.topics import Topics, abs_java, is_valid_topic_name, java_string_hash
from odradek.controller.image.control_requests import UpdateMetadata, UpdateMetadataPartition
from odradek.controller.image.image import BrokerImage, Endpoint, PartitionState
from odradek.controller.image.metadata_cache import MetadataCache


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


def update(name: str, leader_epoch: int, *ports: int, partitions: int = 1) -> UpdateMetadata:
    """A topic in a leader epoch, and brokers with a listener A; every other one has a B, too."""
    state = PartitionState(
        leader=1, leader_epoch=leader_epoch, isr=(1,), partition_epoch=0, controller_epoch=1
    )
    rows = tuple(
        UpdateMetadataPartition(name, UUID(int=7), index, state, (1,), ())
        for index in range(partitions)
    )
    endpoints = [
        tuple(Endpoint(listener, "h", port, "PLAINTEXT") for listener in "AB"[: 1 + number % 2])
        for number, port in enumerate(ports)
    ]
    brokers = tuple(BrokerImage(number, -1, each) for number, each in enumerate(endpoints))
    return UpdateMetadata(1, 1, 1, rows, brokers)


@pytest.mark.parametrize("partitions", [1, 3, topics.KEPT_PARTITIONS_MAX + 1])
def test_views_and_brokers_are_those_of_the_newest_image(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    monkeypatch.setattr(topics, "VIEWS_KEPT", 2)
    metadata = MetadataCache()
    lookups = Topics(metadata)
    assert (lookups.view("t"), lookups.brokers("A")) == (None, ())
    for epoch, ports in enumerate([(91, 92), (91,), (91, 92, 93, 94)]):
        for name in ("s", "t", "u", "v"):
            metadata.apply(
                update(name, epoch, *ports, partitions=partitions), {}, removes_topics=False
            )
        for name in ("s", "t", "u", "v", "s"):
            view = lookups.view(name)
            assert view is not None
            assert (view.name, len(view.partitions)) == (name, partitions)
            assert {partition.leader_epoch for partition in view.partitions} == {epoch}
        for _ in range(2):
            assert [port for _, _, port, _ in lookups.brokers("A")] == list(ports)
            assert [port for _, _, port, _ in lookups.brokers("B")] == list(ports[1::2])
            assert lookups.brokers("C") == ()
    metadata.apply(update("other", 9), {}, removes_topics=True)
    assert lookups.view("t") is None
    assert lookups.brokers("A") == ()
