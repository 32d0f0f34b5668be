from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from odradek.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.log.retention import (
    OldSegment,
    plan_age_deletion,
    plan_log_start_deletion,
    plan_size_deletion,
)
from odradek.storage.log.rolling import (
    NextBatch,
    RollReason,
    SegmentStats,
    roll_jitter_ms,
    roll_reason,
)
from odradek.storage.log_config import LogConfig

CONFIG = LogConfig(segment_bytes=1_000, segment_ms=100)


def stats(
    size_bytes: int = 500,
    first_timestamp_ms: int = 10_000,
    created_ms: int = 0,
    jitter: int = 0,
    is_index_full: bool = False,
) -> SegmentStats:
    return SegmentStats(
        base_offset=50,
        size_bytes=size_bytes,
        first_timestamp_ms=first_timestamp_ms,
        created_ms=created_ms,
        jitter_ms=jitter,
        is_index_full=is_index_full,
    )


def coming(
    size_bytes: int = 500, last_offset: int = 60, max_timestamp_ms: int = 10_000
) -> NextBatch:
    return NextBatch(
        size_bytes=size_bytes, last_offset=last_offset, max_timestamp_ms=max_timestamp_ms
    )


@pytest.mark.parametrize(
    ("segment", "batch", "now_ms", "expected"),
    [
        (stats(), coming(), 0, None),
        (stats(), coming(501), 0, RollReason.SIZE),
        (stats(0), coming(1_000), 0, None),
        (stats(), coming(max_timestamp_ms=10_100), 0, None),
        (stats(), coming(max_timestamp_ms=10_101), 0, RollReason.AGE),
        (stats(jitter=30), coming(max_timestamp_ms=10_070), 0, None),
        (stats(jitter=30), coming(max_timestamp_ms=10_071), 0, RollReason.AGE),
        (stats(), coming(max_timestamp_ms=9_000), 10**9, None),
        (stats(first_timestamp_ms=-1, created_ms=500), coming(), 600, None),
        (stats(first_timestamp_ms=-1, created_ms=500), coming(), 601, RollReason.AGE),
        (stats(0, created_ms=0), coming(max_timestamp_ms=10**9), 10**9, None),
        (stats(is_index_full=True), coming(), 0, RollReason.INDEX_FULL),
        (stats(0, is_index_full=True), coming(), 0, None),
        (stats(), coming(last_offset=50 + RELATIVE_OFFSET_MAX), 0, None),
        (stats(), coming(last_offset=51 + RELATIVE_OFFSET_MAX), 0, RollReason.OFFSET_RANGE),
        (stats(0), coming(last_offset=51 + RELATIVE_OFFSET_MAX), 0, RollReason.OFFSET_RANGE),
    ],
)
def test_segment_is_rolled_for_each_reason_exactly_beyond_its_limit(
    segment: SegmentStats, batch: NextBatch, now_ms: int, expected: RollReason | None
) -> None:
    assert roll_reason(segment, CONFIG, batch, now_ms) == expected


@pytest.mark.parametrize(
    ("is_compacted", "lag_ms", "age_ms"),
    [(True, 40, 40), (True, 0, 100), (True, 200, 100), (False, 40, 100)],
)
def test_segment_of_a_compacted_log_is_closed_within_the_compaction_lag(
    is_compacted: bool, lag_ms: int, age_ms: int
) -> None:
    config = replace(CONFIG, cleanup_compact=is_compacted, max_compaction_lag_ms=lag_ms)
    in_time, late = (
        NextBatch(size_bytes=1, last_offset=60, max_timestamp_ms=10_000 + age)
        for age in (age_ms, age_ms + 1)
    )
    assert roll_reason(stats(), config, in_time, 0) is None
    assert roll_reason(stats(), config, late, 0) is RollReason.AGE


def test_jitter_stays_below_its_limit_and_below_the_age() -> None:
    assert roll_jitter_ms(LogConfig(), "orders", 0, 5) == 0
    for segment_ms in (4, 10**9):
        config = LogConfig(segment_jitter_ms=10, segment_ms=segment_ms)
        jitters = [roll_jitter_ms(config, "orders", 0, base) for base in range(200)]
        assert set(jitters) == set(range(min(10, segment_ms)))
        assert jitters == [roll_jitter_ms(config, "orders", 0, base) for base in range(200)]


def old(*segments: tuple[int, int, int]) -> list[OldSegment]:
    """Size, end offset, largest timestamp; the last one is in use."""
    return [
        OldSegment(size, end, timestamp, number == len(segments) - 1)
        for number, (size, end, timestamp) in enumerate(segments)
    ]


def test_segments_below_the_log_start_are_deleted_but_never_the_active_one() -> None:
    segments = old((10, 5, 0), (10, 9, 0), (0, 9, 0))
    assert plan_log_start_deletion(segments, 4) == 0
    assert plan_log_start_deletion(segments, 5) == 1
    assert plan_log_start_deletion(segments, 9) == 2


def test_segment_is_deleted_one_millisecond_after_retention_ms() -> None:
    config = LogConfig(retention_ms=1_000)
    segments = old((10, 5, 5_000), (10, 9, 5_001), (10, 12, 9_000))
    assert plan_age_deletion(segments, config, 12, 6_000) == 0
    assert plan_age_deletion(segments, config, 12, 6_001) == 1
    assert plan_age_deletion(segments, config, 12, 6_002) == 2
    assert plan_age_deletion(segments, config, 12, 10_001) == 3
    assert plan_age_deletion(segments, LogConfig(retention_ms=-1), 12, 10**12) == 0
    assert plan_age_deletion(segments, LogConfig(retention_ms=0), 12, 9_001) == 3


def test_young_segment_protects_later_segments_with_older_timestamps() -> None:
    segments = old((10, 5, 9_000), (10, 9, 0), (10, 12, 0))
    assert plan_age_deletion(segments, LogConfig(retention_ms=1_000), 12, 9_500) == 0


def test_segment_that_ends_above_the_high_watermark_is_not_deleted() -> None:
    segments = old((10, 5, 0), (10, 9, 0), (10, 12, 0))
    config = LogConfig(retention_ms=0, retention_bytes=0)
    assert plan_age_deletion(segments, config, 8, 10) == 1
    assert plan_size_deletion(segments, config, 8, 30) == 1
    assert plan_age_deletion(segments, config, 4, 10) == 0


def test_size_retention_keeps_at_least_what_it_says() -> None:
    segments = old((10, 5, 0), (10, 9, 0), (10, 12, 0))
    for retention_bytes, expected in [(31, 0), (30, 0), (21, 0), (20, 1), (11, 1), (10, 2), (0, 3)]:
        config = LogConfig(retention_bytes=retention_bytes)
        assert plan_size_deletion(segments, config, 12, 30) == expected, retention_bytes


def test_empty_active_segment_is_never_deleted() -> None:
    segments = old((10, 5, 0), (0, 5, 0))
    config = LogConfig(retention_ms=0, retention_bytes=0)
    assert plan_age_deletion(segments, config, 5, 10) == 1
    assert plan_size_deletion(segments, config, 5, 10) == 1


def test_retention_reads_nothing_after_the_first_segment_that_stays() -> None:
    config = LogConfig(retention_ms=1_000, retention_bytes=15)
    segments = old((10, 5, 0), (10, 9, 9_500), (10, 12, 0), (10, 15, 0))

    def looked_at() -> Iterator[OldSegment]:
        for segment in segments:
            seen.append(segment.end_offset)
            yield segment

    seen: list[int] = []
    assert plan_log_start_deletion(looked_at(), 4) == 0
    assert seen == [5]
    seen.clear()
    assert plan_age_deletion(looked_at(), config, 15, 10_000) == 1
    assert seen == [5, 9]
    seen.clear()
    assert plan_size_deletion(looked_at(), config, 15, 40) == 2
    assert seen == [5, 9, 12]
    seen.clear()
    assert plan_size_deletion(looked_at(), config, 15, 14) == 0
    assert seen == []
