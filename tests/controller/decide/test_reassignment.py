"""Targets of reassignments, and when they are complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.decide.reassignment import (
    completed,
    decide_reassignment,
    is_being_reassigned,
    is_complete,
    origin_replicas,
    reassign_to,
    target_replicas,
)
from odradek.controller.image.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import ZERO_UUID, TopicPartition

KEY = TopicPartition("t", 0)
REPLICAS = st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True).map(tuple)


def cluster(partition: PartitionImage, *live: int) -> Image:
    brokers = {broker_id: BrokerImage(broker_id, broker_id, ()) for broker_id in live}
    return Image(brokers=brokers).with_topics([TopicImage("t", ZERO_UUID, {0: partition})])


def led(replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(0, replicas, PartitionState(isr[0], 0, isr, 0, 1))


def test_example_of_kafkas_own_source() -> None:
    moved = reassign_to(led((1, 2, 3), (1, 2, 3)), (4, 5, 6))
    assert moved.replicas == (4, 5, 6, 1, 2, 3)
    assert moved.adding == (4, 5, 6)
    assert moved.removing == (1, 2, 3)


@given(REPLICAS, st.lists(REPLICAS, min_size=1, max_size=4))
def test_origin_is_kept_and_the_last_target_counts(
    origin: tuple[int, ...], targets: list[tuple[int, ...]]
) -> None:
    partition = led(origin, origin)
    for target in targets:
        partition = reassign_to(partition, target)
        assert target_replicas(partition) == target
        assert sorted(origin_replicas(partition)) == sorted(origin)
        assert sorted(partition.replicas) == sorted({*origin, *target})
        assert not {*partition.adding} & {*partition.removing}
        assert is_being_reassigned(partition) == (sorted(target) != sorted(origin))
    assert completed(partition).replicas == targets[-1]
    cancelled = reassign_to(partition, origin_replicas(partition))
    assert not is_being_reassigned(cancelled)


@given(REPLICAS, REPLICAS, st.data())
def test_complete_means_that_the_whole_target_is_in_sync(
    origin: tuple[int, ...], target: tuple[int, ...], data: st.DataObject
) -> None:
    partition = reassign_to(led(origin, origin), target)
    isr = data.draw(st.lists(st.sampled_from(partition.replicas), min_size=1, unique=True))
    state = PartitionState(isr[0], 0, tuple(isr), 0, 1)
    partition = partition._replace(state=state)
    image = cluster(partition, 1, 2, 3, 4, 5, 6)
    expected = {*target} <= {*isr} or sorted(target) == sorted(origin)
    assert is_complete(image, "t", partition) == expected


def test_reassignment_without_a_live_target_replica_is_not_complete() -> None:
    partition = reassign_to(led((1,), (1,)), (2,))._replace(state=PartitionState(-1, 0, (2,), 0, 1))
    assert not is_complete(cluster(partition, 1), "t", partition)
    assert is_complete(cluster(partition, 1, 2), "t", partition)


def test_new_target_must_keep_an_in_sync_replica() -> None:
    partition = reassign_to(led((1,), (1,)), (2, 3))._replace(
        state=PartitionState(2, 0, (2,), 0, 1)
    )
    image = cluster(partition, 1, 2, 3)
    with pytest.raises(BrokerError) as refusal:
        decide_reassignment(image, KEY, None, deleting=())
    assert refusal.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert decide_reassignment(image, KEY, (2,), deleting=()).replicas == (2, 1)


def test_broker_that_shuts_down_is_no_target() -> None:
    image = cluster(led((1,), (1,)), 1, 2)._replace(shutting_down=(2,))
    with pytest.raises(BrokerError) as refusal:
        decide_reassignment(image, KEY, (2,), deleting=())
    assert refusal.value.message == (
        "Replica assignment has brokers that are not alive. "
        "Replica list: ArrayBuffer(2), live broker list: Set(1)"
    )
    assert decide_reassignment(image, KEY, (2,), deleting=(), must_be_live=False).adding == (2,)


def test_topic_that_is_being_deleted_does_not_exist() -> None:
    with pytest.raises(BrokerError) as refusal:
        decide_reassignment(cluster(led((1,), (1,)), 1), KEY, (1,), deleting=("t",))
    assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
