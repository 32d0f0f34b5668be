"""Replica placement, against Kafka's formula and examples."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.decide.placement import alternate_racks, place
from odradek.controller.image.image import BrokerImage
from odradek.protocol.errors import BrokerError, ErrorCode


def brokers(count: int) -> list[BrokerImage]:
    return [BrokerImage(broker_id, 1, ()) for broker_id in range(count)]


def racked(racks: dict[int, str]) -> list[BrokerImage]:
    return [BrokerImage(broker_id, 1, (), rack) for broker_id, rack in racks.items()]


def test_five_brokers_as_in_kafkas_own_example() -> None:
    placed = place(brokers(5), partitions=10, replication_factor=3, start=0, shift=0)
    assert placed == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_consecutive_brokers_are_of_different_racks() -> None:
    racks = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]
    assert alternate_racks({0: "a", 1: "a", 2: "a", 3: "b"}) == [0, 3, 1, 2]


def test_six_brokers_in_three_racks_as_in_kafkas_own_example() -> None:
    racks = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}
    placed = place(racked(racks), partitions=7, replication_factor=3, start=0, shift=0)
    assert placed == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


def test_new_partitions_continue_the_placement_of_the_old_ones() -> None:
    whole = place(brokers(4), partitions=9, replication_factor=2, start=3, shift=3)
    tail = place(
        brokers(4), partitions=5, replication_factor=2, start=3, shift=3, first_partition=4
    )
    first = place(brokers(4), partitions=4, replication_factor=2, start=3, shift=3)
    assert {**first, **tail} == whole


@given(
    count=st.integers(1, 9),
    partitions=st.integers(1, 40),
    data=st.data(),
    start=st.integers(0, 1 << 30),
    shift=st.integers(0, 1 << 30),
)
def test_placement_is_even_and_uses_no_broker_twice(
    count: int, partitions: int, data: st.DataObject, start: int, shift: int
) -> None:
    replication_factor = data.draw(st.integers(1, count))
    placed = place(
        brokers(count),
        partitions=partitions,
        replication_factor=replication_factor,
        start=start,
        shift=shift,
    )
    assert list(placed) == list(range(partitions))
    assert all(len(set(replicas)) == replication_factor for replicas in placed.values())
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.get(broker_id, 0) for broker_id in range(count)) <= 1
    everywhere = Counter(broker_id for replicas in placed.values() for broker_id in replicas)
    if partitions % count == 0:
        assert len(dict.fromkeys(everywhere.values())) == 1
    for partition, replicas in placed.items():
        first = (partition + start) % count
        assert replicas[0] == first
        # Every partition number that wraps past the brokers moves the others on by one.
        wrapped = shift + partition // count
        for index, broker_id in enumerate(replicas[1:]):
            assert broker_id == (first + 1 + (wrapped + index) % (count - 1)) % count


@given(
    racks=st.dictionaries(st.integers(0, 12), st.sampled_from("abc"), min_size=1),
    partitions=st.integers(1, 30),
    data=st.data(),
    start=st.integers(0, 1000),
    shift=st.integers(0, 1000),
)
def test_every_rack_gets_a_replica_before_any_gets_two(
    racks: dict[int, str], partitions: int, data: st.DataObject, start: int, shift: int
) -> None:
    replication_factor = data.draw(st.integers(1, len(racks)))
    placed = place(
        racked(racks),
        partitions=partitions,
        replication_factor=replication_factor,
        start=start,
        shift=shift,
    )
    for replicas in placed.values():
        assert len(set(replicas)) == replication_factor
        used = [racks[broker_id] for broker_id in replicas]
        rack_count = len(set(racks.values()))
        assert len(set(used)) == min(rack_count, replication_factor)
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.get(rack, 0) for rack in racks) <= 1


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "code", "message"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (
            1,
            3,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 3 larger than available brokers: 2.",
        ),
    ],
)
def test_impossible_counts_raise_invalid_partitions_or_replication_factor(
    partitions: int, replication_factor: int, code: ErrorCode, message: str
) -> None:
    with pytest.raises(BrokerError) as refusal:
        place(
            brokers(2),
            partitions=partitions,
            replication_factor=replication_factor,
            start=0,
            shift=0,
        )
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_racks_of_only_some_brokers_raise_unknown_server_error_without_message() -> None:
    some = [BrokerImage(1, 1, (), "a"), BrokerImage(2, 1, ())]
    with pytest.raises(BrokerError) as refusal:
        place(some, partitions=1, replication_factor=1, start=0, shift=0)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
