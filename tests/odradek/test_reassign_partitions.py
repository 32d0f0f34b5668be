"""Parts of `odradek reassign-partitions` that the conversations cannot show."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.image.image import BrokerImage
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import ToolError
from odradek.tools.reassign_partitions.cluster import OngoingReassignment
from odradek.tools.reassign_partitions.command import propose
from odradek.tools.reassign_partitions.log_dir_moves import LogDirState
from odradek.tools.reassign_partitions.plan import (
    TopicPartitionReplica,
    format_assignment,
    parse_plan,
)
from odradek.tools.reassign_partitions.throttles import (
    Move,
    follower_throttles,
    leader_throttles,
    moves_of,
)

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 10)


def brokers(*racks: str | None) -> list[BrokerImage]:
    """Brokers 0, 1, 2... in these racks."""
    return [BrokerImage(broker, -1, (), rack) for broker, rack in enumerate(racks)]


@given(st.integers(1, 9), st.integers(1, 4))
def test_proposal_keeps_partitions_and_replication_factor(count: int, factor: int) -> None:
    current = {TopicPartition("orders", index): [9] * factor for index in range(count)}
    proposed = propose({**current, BILLS: [7]}, brokers(None, None, None, None))
    assert {partition: len(replicas) for partition, replicas in proposed.items()} == {
        **dict.fromkeys(current, factor),
        TopicPartition("bills", 0): 1,
    }
    assert all(len(set(replicas)) == len(replicas) for replicas in proposed.values())
    leaders = [
        replicas[0] for partition, replicas in proposed.items() if partition.topic == "orders"
    ]
    assert max(map(leaders.count, leaders)) - min(map(leaders.count, range(4))) <= 1


def test_proposal_spreads_replicas_over_racks() -> None:
    current = {TopicPartition("orders", index): [9, 8] for index in range(12)}
    for replicas in propose(current, brokers("a", "a", "b", "b")).values():
        assert len({broker // 2 for broker in replicas}) == 2


def test_proposal_without_enough_brokers_is_an_error() -> None:
    with pytest.raises(ToolError) as raised:
        propose({ORDERS: [1, 2]}, brokers(None))
    assert str(raised.value) == "Replication factor: 2 larger than available brokers: 1."


def test_sources_of_a_partition_that_moves_are_those_of_its_move() -> None:
    under_way = {ORDERS: OngoingReassignment([1, 2, 3], [3], [1])}
    moves = moves_of(under_way, {ORDERS: [4, 1], BILLS: [2, 5]}, {ORDERS: [9], BILLS: [5, 6]})
    assert moves == {ORDERS: Move([1, 2], [4]), BILLS: Move([5, 6], [2])}
    assert moves_of(under_way, {}, {}) == {ORDERS: Move([1, 2], [3])}


def test_throttled_replicas_are_sorted_as_texts() -> None:
    moves = {
        TopicPartition("orders", 2): Move([10, 9], [1]),
        TopicPartition("orders", 10): Move([1], []),
        BILLS: Move([], [3]),
    }
    assert leader_throttles(moves) == {"orders": "10:1,2:10,2:9", "bills": ""}
    assert follower_throttles(moves) == {"orders": "2:1", "bills": "10:3"}


PLANS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["orders", "bills"]), st.integers(0, 20)),
    st.lists(st.integers(0, 99), min_size=1, max_size=4),
)


@given(PLANS)
def test_formatted_assignment_is_parsed_into_itself(
    assignment: dict[TopicPartition, list[int]],
) -> None:
    plan = parse_plan(format_assignment(assignment))
    assert plan.partitions == sorted(assignment.items())
    assert not plan.directories


@given(st.text())
def test_any_text_is_a_plan_or_an_error(text: str) -> None:
    with suppress(ToolError):
        assert parse_plan(text).partitions == []


@pytest.mark.parametrize(
    ("current", "future", "line", "is_done"),
    [
        ("/a", None, "Reassignment of replica orders-0-1 completed successfully.", True),
        (
            "/b",
            None,
            "Partition orders-0 on broker 1 is not being moved from log dir /b to /a.",
            True,
        ),
        ("/b", "/a", "Reassignment of replica orders-0-1 is still in progress.", False),
        (
            "/b",
            "/c",
            "Partition orders-0 on broker 1 is being moved to log dir /c instead of /a.",
            False,
        ),
        (
            None,
            None,
            "Partition orders-0 is not found in any live log dir on broker 1. There is likely an "
            "offline log directory on the broker.",
            False,
        ),
    ],
)
def test_state_of_a_move_between_directories_has_its_line(
    current: str | None, future: str | None, line: str, is_done: bool
) -> None:
    state = LogDirState("/a", current, future)
    assert state.line(TopicPartitionReplica(1, "orders", 0)) == line
    assert state.is_done == is_done
