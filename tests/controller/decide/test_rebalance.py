"""Which partitions go back to their preferred leaders."""

from __future__ import annotations

import pytest

from odradek.controller.decide.rebalance import decide_rebalance
from odradek.controller.image.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.protocol.topic_partition import ZERO_UUID


def image(*leaders: int, isr: tuple[int, ...] = (1, 2)) -> Image:
    """Partitions that prefer broker 1, led by `leaders`."""
    partitions = {
        index: PartitionImage(index, (1, 2), PartitionState(leader, 0, isr, 0, 1))
        for index, leader in enumerate(leaders)
    }
    brokers = {broker_id: BrokerImage(broker_id, broker_id, ()) for broker_id in (1, 2)}
    return Image(brokers=brokers).with_topics([TopicImage("t", ZERO_UUID, partitions)])


@pytest.mark.parametrize(
    ("percentage", "expected"), [(0, [8, 9]), (19, [8, 9]), (20, []), (100, [])]
)
def test_imbalance_above_the_percentage_of_a_broker_is_balanced(
    percentage: int, expected: list[int]
) -> None:
    elections = decide_rebalance(
        image(*[1] * 8, 2, 2), deleting=(), imbalance_percentage=percentage
    )
    assert elections == [("t", index) for index in expected]


def test_preferred_leader_that_cannot_lead_is_left_out() -> None:
    assert decide_rebalance(image(2, isr=(2,)), deleting=(), imbalance_percentage=0) == []
    stopping = image(2)._replace(shutting_down=(1,))
    assert decide_rebalance(stopping, deleting=(), imbalance_percentage=0) == []


def test_topics_that_are_being_deleted_and_partitions_without_a_state_do_not_count() -> None:
    assert decide_rebalance(image(2), deleting=("t",), imbalance_percentage=0) == []
    new = TopicImage("n", ZERO_UUID, {0: PartitionImage(0, (1,)), 1: PartitionImage(1, (1,))})
    elections = decide_rebalance(image(2).with_topics([new]), deleting=(), imbalance_percentage=30)
    assert elections == [("t", 0)]
    assert decide_rebalance(image(2).with_topics([new]), deleting=(), imbalance_percentage=34) == []
