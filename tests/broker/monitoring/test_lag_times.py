"""Lag in seconds, from the ends of a partition at earlier looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.monitoring.lag_times import LOOKS_MAX, EndHistory, LagTimes

SCRAPE_MS = 15_000


def test_stalled_consumer_lags_by_the_time_since_it_stalled() -> None:
    history = EndHistory()
    # 100 records a second; the consumer stops at 30 s.
    for now_ms in range(0, 100_000, SCRAPE_MS):
        history.look(now_ms // 10, now_ms)
    assert history.lag_ms(3_000, 90_000) == pytest.approx(60_000, abs=20)
    assert history.lag_ms(9_000, 90_000) == 0


@pytest.mark.parametrize(
    ("looks", "committed", "now_ms", "lag_ms"),
    [
        ([], 0, 5, 0),
        ([(10, 0)], 10, 900, 0),
        ([(10, 100)], 4, 900, 800),  # written before the first look
        ([(10, 100), (20, 200)], 15, 900, 750),
        ([(10, 0), (10, 500), (10, 600), (11, 700)], 10, 900, 300),  # a pause does not count
        ([(10, 0), (20, 100), (15, 200), (16, 300)], 15, 900, 700),  # a truncation
    ],
)
def test_lag_is_the_age_of_the_next_record(
    looks: list[tuple[int, int]], committed: int, now_ms: int, lag_ms: int
) -> None:
    history = EndHistory()
    for end_offset, at_ms in looks:
        history.look(end_offset, at_ms)
    assert history.lag_ms(committed, now_ms) == lag_ms


@given(st.lists(st.integers(0, 50), min_size=LOOKS_MAX, max_size=4 * LOOKS_MAX))
def test_lag_of_many_looks_is_within_two_of_those_that_are_kept(steps: list[int]) -> None:
    history = EndHistory()
    end_offset, written_ms = 0, {}
    for number, step in enumerate(steps):
        now_ms = number * 1_000
        for offset in range(end_offset, end_offset + step):
            written_ms[offset] = now_ms
        end_offset += step
        history.look(end_offset, now_ms)
    newest_ms = (len(steps) - 1) * 1_000
    # The younger half of what is kept is as it was seen.
    for offset in [offset for offset, at_ms in written_ms.items() if at_ms > newest_ms - 20_000]:
        lag_ms = history.lag_ms(offset, newest_ms)
        assert newest_ms - written_ms[offset] <= lag_ms <= newest_ms - written_ms[offset] + 1_000


def test_partitions_that_no_group_reads_are_forgotten() -> None:
    lags = LagTimes()
    assert lags.look(("t", 0), 5, 0) is lags.look(("t", 0), 9, 0)
    lags.end_look()
    first = lags.look(("t", 0), 5, 1_000)
    lags.end_look()
    lags.end_look()
    assert lags.look(("t", 0), 5, 2_000) is not first
