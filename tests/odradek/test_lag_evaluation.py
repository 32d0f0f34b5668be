"""Burrow's rules, case by case, and the window of commits that they are applied to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.lag.command import table
from odradek.tools.lag.evaluation import (
    Commit,
    GroupLag,
    LagStatus,
    evaluate,
    partition_status,
    window,
)

PLACE = TopicPartition("t", 0)
STEP_MS = 1_000
NOW_MS = 100_000


def commits(*rows: tuple[int, int], last_ms: int = NOW_MS - STEP_MS) -> list[Commit]:
    """(offset, lag) of commits, a step apart."""
    first_ms = last_ms - STEP_MS * (len(rows) - 1)
    return [
        Commit(offset, first_ms + number * STEP_MS, lag)
        for number, (offset, lag) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("rows", "last_ms", "current_lag", "status"),
    [
        ([(1, 5), (2, 0), (3, 9), (4, 10)], NOW_MS, 10, LagStatus.OK),  # it was at the end once
        ([(1, 5), (1, 6), (1, 7)], NOW_MS, 0, LagStatus.OK),  # it is now
        ([(3, 5), (2, 6), (9, 1)], NOW_MS, 3, LagStatus.REWIND),
        ([(1, 5), (2, 5), (3, 5)], NOW_MS - 2_001, 5, LagStatus.STOP),
        ([(1, 5), (2, 5), (3, 5)], NOW_MS - 2_000, 5, LagStatus.WARN),
        ([(1, 5)], NOW_MS - 1, 5, LagStatus.STOP),
        ([], NOW_MS, 5, LagStatus.STOP),
        ([], NOW_MS, 0, LagStatus.OK),
        ([(7, 5), (7, 6), (7, 6)], NOW_MS, 6, LagStatus.STALL),
        ([(7, 5), (8, 5), (9, 6)], NOW_MS, 6, LagStatus.WARN),
        ([(7, 5), (8, 9), (9, 8)], NOW_MS, 8, LagStatus.OK),  # it catches up
    ],
)
def test_partition_is_judged_by_the_rules(
    rows: list[tuple[int, int]], last_ms: int, current_lag: int, status: LagStatus
) -> None:
    assert partition_status(commits(*rows, last_ms=last_ms), current_lag, NOW_MS) is status


@pytest.mark.parametrize(
    ("lags", "status"),
    [
        ({0: 0, 1: 0}, LagStatus.OK),
        ({0: 5, 1: 0}, LagStatus.WARN),
        ({0: 5, 2: 5}, LagStatus.ERR),  # the third partition never had a commit
    ],
)
def test_group_is_as_its_worst_partition(lags: dict[int, int], status: LagStatus) -> None:
    slow = commits((1, 5), (2, 6))
    verdict = evaluate(
        "g", {PLACE: slow}, {TopicPartition("t", index): lag for index, lag in lags.items()}, NOW_MS
    )
    assert verdict.status is status
    assert verdict.total_lag == sum(lags.values())
    assert [row.partition.partition for row in verdict.partitions] == list(lags)


def test_group_without_partitions_is_ok() -> None:
    verdict = evaluate("g", {}, {}, NOW_MS)
    assert (verdict.status, verdict.worst, verdict.complete) == (LagStatus.OK, None, 1.0)


@given(
    st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 1_000)), max_size=60),
    st.integers(1, 5_000),
)
def test_window_has_the_newest_commit_of_each_interval(
    rows: list[tuple[int, int]], interval_ms: int
) -> None:
    kept = window(rows, interval_ms)
    assert len(kept) <= 10
    assert kept == sorted(kept, key=lambda row: row[0])
    assert set(kept) <= set(rows)
    if rows:
        assert kept[-1][0] == max(at_ms for at_ms, _ in rows)
    everything = window(rows, interval_ms, size=len(rows) + 1)
    assert kept == everything[-10:]
    # A commit that is left out has a newer one within the interval.
    for at_ms, _ in rows:
        assert any(0 <= newer - at_ms < interval_ms for newer, _ in everything)


def test_group_does_not_move_the_cursor_of_a_terminal() -> None:
    group = "\x1b[2J\nqué"
    _, row = table({group: GroupLag(group, LagStatus.OK, ())})
    assert row.split()[:2] == [r"\x1b[2J\nqué", "OK"]
