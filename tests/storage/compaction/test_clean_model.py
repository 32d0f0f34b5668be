"""Any history, cleaned again and again, against a list of all records that were ever appended."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record import decode_records
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.compaction import offset_map
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from tests.storage.compaction.cleaning import (
    RETENTION_MS,
    batches_of,
    clean_log,
    committed_records,
    final_state,
    job_of,
    records_of,
    run_job,
)
from tests.storage.compaction.workload import Workload, apply
from tests.support.logs import NOW_MS, LogFolder, flush, read_all

CONFIG = LogConfig(
    segment_bytes=1_500, index_interval_bytes=200, cleanup_delete=False, cleanup_compact=True
)


@dataclass(frozen=True)
class Round:
    """Some appends, some time, then a cleaning."""

    steps: int
    passed_ms: int
    map_entries_max: int
    reopening: str


rounds = st.lists(
    st.builds(
        Round,
        st.integers(1, 50),
        st.sampled_from([0, 1, RETENTION_MS - 1, RETENTION_MS, 3 * RETENTION_MS]),
        st.sampled_from([1, 3, 8, 1_000, 1_000]),
        st.sampled_from(["none", "none", "clean", "unclean"]),
    ),
    min_size=1,
    max_size=6,
)


def facts(log: Log) -> list[tuple[int, bytes | None, bytes | None, int]]:
    return [(r.offset, r.key, r.value, r.timestamp_ms) for r in records_of(batches_of(log))]


def reopened(folder: LogFolder, log: Log, how: str) -> Log:
    if how == "clean":
        log.close(NOW_MS)
        return folder.open(was_clean=True)
    if how == "unclean":
        flush(log)
        log.abandon()
        return folder.open(recovery_point=0)
    return log


def check_reads(log: Log) -> None:
    """A read from any offset gives the first batch whose last offset is >= it."""
    batches = batches_of(log)
    lasts = [batch.last_offset for batch in batches]
    for offset in range(log.log_start_offset, log.end_offset):
        piece = log.read(offset, 1, up_to_offset=log.end_offset)
        index = bisect_left(lasts, offset)
        if index == len(batches):
            assert piece is None
            continue
        assert piece is not None
        assert piece.read() == bytes(batches[index].view)
        piece.release()


def check_times(log: Log) -> None:
    """ListOffsets finds the first record that is no older, whatever is missing before it."""
    times = [
        (record.offset, record.timestamp_ms)
        for batch in batches_of(log)
        for record in decode_records(batch)
    ]
    for wanted_ms in range(NOW_MS, NOW_MS + log.end_offset + 300, 17):
        expected = next((each for each in times if each[1] >= wanted_ms), None)
        position = log.offset_for_timestamp(wanted_ms, up_to_offset=log.end_offset)
        assert (position and position[:2]) == expected


def behind(log: Log, offset: int) -> bytes:
    """The records in the segments from `offset` on."""
    return read_all(log, offset) if offset < log.end_offset else b""


@settings(max_examples=60)
@given(st.integers(0, 1 << 32), rounds)
def test_every_cleaning_leaves_what_the_model_says(seed: int, plan: list[Round]) -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    workload = Workload(SeededRandomness(seed))
    now_ms = NOW_MS
    dirty = 0
    for each in plan:
        now_ms += each.passed_ms
        for action in workload.actions(each.steps):
            apply(log, action)
        state = workload.state()
        job = job_of(log, first_dirty_offset=dirty)
        untouched = behind(log, job.first_uncleanable_offset)
        result = clean_log(
            folder.files,
            log,
            first_dirty_offset=dirty,
            now_ms=now_ms,
            map_entries_max=each.map_entries_max,
        )
        log.check()
        assert dirty <= result.end_offset
        assert result.end_offset <= max(job.first_uncleanable_offset, dirty)
        if dirty < job.first_uncleanable_offset and log.segments[0] is not log.segments.active:
            assert result.end_offset > dirty, "every cleaning gets further"
        if result.groups:
            ends = [*job.base_offsets, job.first_uncleanable_offset]
            cleaned_to = ends[bisect_left(ends, result.end_offset)]
            workload.clean(
                result.end_offset, cleaned_to, now_ms=now_ms, delete_retention_ms=RETENTION_MS
            )
        dirty = result.end_offset
        expected = [(r.offset, r.key, r.value, r.timestamp_ms) for r in workload.records]
        assert facts(log) == expected
        assert behind(log, job.first_uncleanable_offset) == untouched
        assert workload.state() == state
        log = reopened(folder, log, each.reopening)
        log.check()
    assert facts(log) == expected
    check_reads(log)
    check_times(log)
    for action in workload.end_transactions():
        apply(log, action)
    assert final_state(committed_records(log)) == workload.state()


@settings(max_examples=25)
@given(st.integers(0, 1 << 32), st.integers(1, 120))
def test_cleaning_again_changes_nothing(seed: int, steps: int) -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    workload = Workload(SeededRandomness(seed))
    for action in workload.actions(steps):
        apply(log, action)
    clean_log(folder.files, log)
    before = facts(log)
    # Only now no data of the aborted transactions is left, and their markers get a horizon.
    clean_log(folder.files, log)
    assert facts(log) == before
    content = read_all(log)
    clean_log(folder.files, log)
    assert read_all(log) == content
    assert run_job(folder.files, job_of(log)).kept_records == len(
        [
            r
            for b in batches_of(log)
            if b.base_offset < job_of(log).first_uncleanable_offset
            for r in decode_records(b)
        ]
    )


@pytest.mark.parametrize("seed", range(5))
def test_cleaning_without_remembered_survivors_has_the_same_result(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for bytes_max in (1 << 20, -1):
        monkeypatch.setattr(offset_map, "SURVIVORS_BYTES_MAX", bytes_max)
        folder = LogFolder(config=CONFIG)
        log = folder.open()
        workload = Workload(SeededRandomness(seed))
        dirty = 0
        for number in range(4):
            for action in workload.actions(40):
                apply(log, action)
            dirty = clean_log(
                folder.files,
                log,
                first_dirty_offset=dirty,
                now_ms=NOW_MS + number * 600,
                map_entries_max=12,
            ).end_offset
        contents.append(read_all(log))
    assert contents[0] == contents[1]


def test_random_histories_contain_every_kind_of_batch() -> None:
    """The tests above would be worth little without these."""
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    workload = Workload(SeededRandomness(3))
    batches: list[RecordBatch] = []
    for number in range(12):
        for action in workload.actions(40):
            apply(log, action)
        clean_log(folder.files, log, now_ms=NOW_MS + number * 400)
        batches += batches_of(log)
    assert any(batch.delete_horizon_ms and batch.is_control for batch in batches)
    assert any(batch.delete_horizon_ms and not batch.is_control for batch in batches)
    assert any(not batch.record_count and not batch.is_control for batch in batches)
    assert {batch.codec for batch in batches if batch.record_count <= batch.last_offset_delta} == {
        0,
        1,
        2,
        3,
        4,
    }
    assert aborted_transactions(log.segments, 0, log.end_offset)
