"""A node follows a leading broker over the network, as a controller would have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.following_node import FollowingNode, following_node
from tests.support.scripted_follower import LeadingBroker, Replicated, our_leader


@pytest.fixture
def leading(tmp_path: Path) -> Iterator[LeadingBroker]:
    with our_leader(tmp_path / "leader", {}) as broker:
        yield broker


@pytest.fixture
def following(leading: LeadingBroker, tmp_path: Path) -> Iterator[FollowingNode]:
    with following_node(tmp_path / "follower", leading.address) as node:
        yield node


@pytest.fixture
def topic(leading: LeadingBroker) -> Iterator[Replicated]:
    replicated = Replicated(leading, "orders")
    yield replicated
    replicated.close()


def log_bytes(folder: Path) -> dict[str, bytes]:
    """The segments of the partition, whole."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}


def test_records_of_the_leader_are_appended_and_committed(
    following: FollowingNode, topic: Replicated, tmp_path: Path
) -> None:
    wire = topic.wire()
    for _ in range(5):
        topic.produce(wire, acks=1)
        topic.produced(wire)
    following.send_state("orders", topic.topic_id, topic.leader_epoch)
    following.until_ends("orders", (0, 5, 5))
    topic.produce(wire, acks=-1)
    assert topic.produced(wire) == (0, 5)
    following.until_ends("orders", (0, 6, 6))
    leader_log = log_bytes(tmp_path / "leader/data/orders-0")
    assert log_bytes(tmp_path / "follower/data/orders-0") == leader_log
    assert leader_log
