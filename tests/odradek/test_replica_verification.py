"""The comparison of `odradek replica-verification`, and its command line.

What it prints is compared with Apache's tool where its clusters run:
`test_conversations_with_apache_cluster`, `test_conversations_with_our_cluster`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.replica_verification import Batch, Fetched, Lag, compare, largest_lag
from tests.odradek.cluster_tools import our_tool
from tests.odradek.replica_verification import NAME

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        ([], 2, "Validate that all replicas"),
        (["--help"], 1, "Validate that all replicas"),
        (["--time", "1"], 2, 'Missing required argument "[broker-list]"'),
        (
            ["--broker-list", "a:1", "--topics-include", "a", "--topic-white-list", "b"],
            2,
            'Option "[topics-include]" can\'t be used with option "[topic-white-list]"',
        ),
        (
            ["--broker-list", "127.0.0.1:1", "--time", "soon"],
            2,
            "Cannot parse argument 'soon' of option time",
        ),
    ],
)
def test_invalid_command_line_is_reported(words: list[str], exit_code: int, message: str) -> None:
    result = our_tool(NAME, words)
    assert (result.exit_code, result.output) == (exit_code, "")
    assert result.errors.startswith(message)


LOGS = st.lists(st.integers(1, 5), max_size=8)
"""Records in each batch."""


def batches(sizes: list[int]) -> list[Batch]:
    """Batches from offset 0 on."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return [Batch(end - 1, 1000 + end) for end in ends]


@given(LOGS, st.integers(0, 40), st.integers(0, 40))
def test_equal_logs_are_compared_up_to_the_lowest_high_watermark(
    sizes: list[int], first: int, second: int
) -> None:
    log = batches(sizes)
    result = compare(ORDERS, 0, {1: Fetched(first, log), 2: Fetched(second, log)})
    ends = [batch.last_offset + 1 for batch in log if batch.last_offset < min(first, second)]
    assert result == (max(ends, default=0), [], False)


@given(LOGS.filter(bool), st.data())
def test_every_batch_with_another_checksum_is_reported(
    sizes: list[int], data: st.DataObject
) -> None:
    log = batches(sizes)
    wrong = data.draw(st.sets(st.sampled_from(range(len(log)))))
    other = [
        Batch(batch.last_offset, 7 if index in wrong else batch.checksum)
        for index, batch in enumerate(log)
    ]
    result = compare(ORDERS, 0, {1: Fetched(99, log), 2: Fetched(99, other), 3: Fetched(99, log)})
    assert result.next_offset == sum(sizes)
    assert not result.is_fatal
    assert [int(line.split()[7].rstrip(";")) for line in result.mismatches] == [
        log[index].last_offset for index in sorted(wrong)
    ]


def test_replica_that_does_not_respond_delays_the_comparison() -> None:
    result = compare(ORDERS, 5, {1: Fetched(9, [Batch(5, 1)]), 2: Fetched()})
    assert result == (5, [], False)


def test_largest_lag_is_that_of_the_partition_furthest_below_its_high_watermark() -> None:
    bills = TopicPartition("bills", 3)
    offsets = {ORDERS: 5, bills: 2}
    assert largest_lag(offsets, {ORDERS: 7, bills: 9}) == Lag(7, bills, 2)
    assert largest_lag(offsets, {ORDERS: -1, bills: -1}).line(2) == (
        "max lag is -1 for partition null at offset -1 among 2 partitions"
    )
