"""Which log is cleaned, from where to where: Kafka's rules, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.compaction.candidates import (
    NO_LIMIT_MS,
    Candidate,
    LogFacts,
    SegmentTimes,
    choose,
    first_dirty_number,
    first_dirty_offset,
    is_checkpoint_void,
    judge,
)

NOW_MS = 1_700_000_000_000

FACTS = LogFacts(
    checkpoint_offset=None,
    log_start_offset=0,
    end_offset=45,
    last_stable_offset=45,
    base_offsets=(0, 10, 20, 30, 40),
    segment_sizes=(100, 100, 100, 100, 50),
    min_cleanable_dirty_ratio=0.5,
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=NO_LIMIT_MS,
)


def times(*pairs: tuple[int, int]) -> tuple[SegmentTimes, ...]:
    """(first, largest) timestamps, counted back from now."""
    return tuple(SegmentTimes(NOW_MS - first, NOW_MS - largest) for first, largest in pairs)


def test_log_that_was_never_cleaned_is_dirty_up_to_the_active_segment() -> None:
    result = judge(FACTS, now_ms=NOW_MS)
    assert (result.first_dirty_offset, result.first_uncleanable_offset) == (0, 40)
    assert (result.clean_bytes, result.cleanable_bytes) == (0, 400)
    assert result.dirty_ratio == 1.0
    assert result.is_due


def test_cleaning_starts_at_the_cleaner_checkpoint() -> None:
    result = judge(replace(FACTS, checkpoint_offset=30), now_ms=NOW_MS)
    assert (result.first_dirty_offset, result.first_uncleanable_offset) == (30, 40)
    assert (result.clean_bytes, result.cleanable_bytes) == (300, 100)
    assert result.dirty_ratio == 0.25
    assert not result.is_due


def test_checkpoint_inside_a_segment_makes_all_of_it_dirty() -> None:
    result = judge(replace(FACTS, checkpoint_offset=25), now_ms=NOW_MS)
    assert result.first_dirty_offset == 25
    assert (result.clean_bytes, result.cleanable_bytes) == (300, 200), "as LogToClean counts"


@pytest.mark.parametrize("ratio", [0.25, 0.3])
def test_log_is_cleanable_only_above_the_dirty_ratio(ratio: float) -> None:
    facts = replace(FACTS, checkpoint_offset=30, min_cleanable_dirty_ratio=ratio)
    assert not judge(facts, now_ms=NOW_MS).is_due
    assert judge(replace(facts, min_cleanable_dirty_ratio=0.24), now_ms=NOW_MS).is_due


def test_log_without_dirty_records_is_not_cleanable_at_ratio_zero() -> None:
    facts = replace(FACTS, checkpoint_offset=40, min_cleanable_dirty_ratio=0.0)
    result = judge(facts, now_ms=NOW_MS)
    assert result.cleanable_bytes == 0
    assert not result.is_due


@pytest.mark.parametrize("stable_offset", [20, 25, 29])
def test_segment_of_the_last_stable_offset_is_not_touched(stable_offset: int) -> None:
    result = judge(replace(FACTS, last_stable_offset=stable_offset), now_ms=NOW_MS)
    assert result.first_uncleanable_offset == 20
    assert result.cleanable_bytes == 200


def test_last_stable_offset_before_the_dirty_part_leaves_nothing_cleanable() -> None:
    facts = replace(FACTS, checkpoint_offset=25, last_stable_offset=5)
    result = judge(facts, now_ms=NOW_MS)
    assert result.cleanable_bytes == 0
    assert not result.is_due


def test_segment_younger_than_min_compaction_lag_ends_the_cleanable_part() -> None:
    ages = times((90, 80), (70, 60), (50, 40), (30, 20))
    facts = replace(FACTS, min_compaction_lag_ms=50, dirty_times=ages)
    result = judge(facts, now_ms=NOW_MS)
    assert result.first_uncleanable_offset == 20
    exactly = judge(replace(facts, min_compaction_lag_ms=40), now_ms=NOW_MS)
    assert exactly.first_uncleanable_offset == 30, "as old as the lag is old enough"


def test_only_ages_of_dirty_segments_count() -> None:
    ages = times((50, 40), (30, 20))
    facts = replace(FACTS, checkpoint_offset=20, min_compaction_lag_ms=30, dirty_times=ages)
    assert judge(facts, now_ms=NOW_MS).first_uncleanable_offset == 30


def test_log_beyond_max_compaction_lag_is_cleaned_at_any_ratio() -> None:
    facts = replace(
        FACTS, checkpoint_offset=30, max_compaction_lag_ms=100, dirty_times=times((101, 5))
    )
    result = judge(facts, now_ms=NOW_MS)
    assert result.delay_ms == 1
    assert result.is_due
    assert not judge(replace(facts, max_compaction_lag_ms=101), now_ms=NOW_MS).is_due


def test_oldest_of_the_dirty_segments_counts_and_one_without_a_time_does_not() -> None:
    ages = (SegmentTimes(-1, -1), *times((300, 5), (700, 5)))
    facts = replace(FACTS, checkpoint_offset=10, max_compaction_lag_ms=100, dirty_times=ages)
    assert judge(facts, now_ms=NOW_MS).delay_ms == 600


def test_delay_without_anything_cleanable_is_not_due() -> None:
    facts = replace(
        FACTS,
        checkpoint_offset=30,
        last_stable_offset=30,
        max_compaction_lag_ms=100,
        dirty_times=times((101, 5)),
    )
    result = judge(facts, now_ms=NOW_MS)
    assert result.delay_ms == 1
    assert not result.is_due


@pytest.mark.parametrize("checkpoint_offset", [4, 46, 2**62])
def test_checkpoint_outside_of_the_log_is_ignored(checkpoint_offset: int) -> None:
    facts = replace(FACTS, log_start_offset=5, checkpoint_offset=checkpoint_offset)
    assert is_checkpoint_void(checkpoint_offset, 5, 45)
    assert judge(facts, now_ms=NOW_MS).first_dirty_offset == 5


@pytest.mark.parametrize("checkpoint_offset", [5, 45, None])
def test_checkpoint_at_either_end_of_the_log_is_valid(checkpoint_offset: int | None) -> None:
    assert not is_checkpoint_void(checkpoint_offset, 5, 45)
    expected = 5 if checkpoint_offset is None else checkpoint_offset
    assert first_dirty_offset(checkpoint_offset, 5, 45) == expected


def candidate(dirty_bytes: int, *, delay_ms: int = 0, ratio: float = 0.5) -> Candidate:
    """One of 100 bytes."""
    return Candidate(0, 10, 100 - dirty_bytes, dirty_bytes, delay_ms, ratio)


def test_log_with_the_largest_ratio_is_chosen_and_lag_only_makes_it_eligible() -> None:
    assert choose([]) is None
    assert choose([candidate(50), candidate(10)]) is None
    assert choose([candidate(60), candidate(90), candidate(70)]) == 1
    assert choose([candidate(60), candidate(10, delay_ms=1)]) == 0
    assert choose([candidate(50), candidate(10, delay_ms=1)]) == 1
    assert choose([candidate(90, ratio=0.95), candidate(60)]) == 1, "each by its own topic's ratio"
    assert choose([candidate(80), candidate(80)]) == 0


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
    st.integers(-5, 200),
    st.integers(0, 200),
    st.integers(0, 60),
    st.data(),
)
def test_cleaned_part_is_between_the_log_start_and_the_last_stable_offset(
    lengths: list[int], checkpoint: int, stable: int, start: int, data: st.DataObject
) -> None:
    bases = [0]
    for length in lengths:
        bases.append(bases[-1] + length)
    end = bases[-1] + data.draw(st.integers(0, 10))
    facts = LogFacts(
        checkpoint_offset=checkpoint if checkpoint >= 0 else None,
        log_start_offset=min(start, end),
        end_offset=end,
        last_stable_offset=min(stable, end),
        base_offsets=bases,
        segment_sizes=[10 * (number + 1) for number in range(len(bases))],
        min_cleanable_dirty_ratio=0.0,
        min_compaction_lag_ms=0,
        max_compaction_lag_ms=NO_LIMIT_MS,
    )
    result = judge(facts, now_ms=NOW_MS)
    assert facts.log_start_offset <= result.first_dirty_offset <= end
    assert result.first_uncleanable_offset in bases
    assert 0.0 <= result.dirty_ratio <= 1.0
    if result.is_due:
        assert result.first_dirty_offset < result.first_uncleanable_offset <= bases[-1]
        assert result.first_uncleanable_offset <= facts.last_stable_offset
        number = first_dirty_number(bases, result.first_dirty_offset)
        assert result.cleanable_bytes == sum(
            size
            for base, size in zip(bases, facts.segment_sizes, strict=True)
            if bases[number] <= base < result.first_uncleanable_offset
        )
