"""A broker and a cluster say in words why they are not healthy."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from odradek.broker.monitoring.health import ClusterProblems, cluster_health, readiness
from odradek.broker.monitoring.scrape import cluster_problems
from odradek.controller.image.image import (
    BrokerImage,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from tests.support.handlers import outcome_of

SERVING: dict[str, Any] = {
    "is_registered": True,
    "is_session_suspended": False,
    "offline_directories": (),
    "is_stopping": False,
}


@pytest.mark.parametrize(
    ("state", "reasons"),
    [
        ({}, []),
        ({"is_stopping": True}, ["the broker is stopping"]),
        ({"is_registered": False}, ["the broker is not registered in the cluster"]),
        ({"is_session_suspended": True}, ["there is no connection to the coordination service"]),
        (
            {"offline_directories": ("/a", "/b")},
            ["the log directory /a is offline", "the log directory /b is offline"],
        ),
    ],
)
def test_readiness_names_each_reason(state: dict[str, Any], reasons: list[str]) -> None:
    assert readiness(**SERVING | state) == reasons


def image_of(states: dict[int, tuple[int, tuple[int, ...]]], **config: str) -> Image:
    """A topic whose partitions have (leader, in-sync replicas) of the replicas 1, 2 and 3."""
    partitions = {
        index: PartitionImage(index, (1, 2, 3), PartitionState(leader, 0, isr, 0, 1))
        for index, (leader, isr) in states.items()
    }
    topic = TopicImage("t", UUID(int=1), MappingProxyType(partitions))
    return Image(
        controller_id=1,
        brokers={1: BrokerImage(1, 1, ())},
        topics={"t": topic},
        topic_configs={"t": {key.replace("_", "."): value for key, value in config.items()}},
    )


@pytest.mark.parametrize(
    ("required", "without_leader", "under_min_isr"),
    [("1", [2], []), ("2", [2], [1]), ("3", [2], [0, 1]), ("9", [2], [0, 1]), ("x", [2], [])],
)
def test_partitions_that_cannot_be_written_are_counted(
    required: str, without_leader: list[int], under_min_isr: list[int]
) -> None:
    image = image_of({0: (1, (1, 2)), 1: (1, (1,)), 2: (-1, (3,))}, min_insync_replicas=required)
    problems = outcome_of(cluster_problems(image))
    assert [index for _, index in problems.without_leader] == without_leader
    assert [index for _, index in problems.under_min_isr] == under_min_isr


def test_cluster_without_a_controller_is_not_healthy() -> None:
    healthy = image_of({})
    nothing = ClusterProblems([], [])
    assert cluster_health(healthy, nothing) == []
    for image, reason in (
        (healthy._replace(controller_id=-1), "there is no controller"),
        (healthy._replace(controller_id=2), "the controller, broker 2, is not registered"),
    ):
        assert cluster_health(image, nothing) == [reason]


def test_reason_names_a_few_partitions_of_many() -> None:
    problems = ClusterProblems([("t", index) for index in range(7)], [])
    (reason,) = cluster_health(image_of({}), problems)
    assert reason == "7 partitions have no leader: t-0, t-1, t-2, t-3, t-4, ..."
