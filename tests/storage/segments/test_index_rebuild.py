"""Lookups with indexes that mislead, that are sparse, damaged or missing, and their rebuilding."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.files import names
from odradek.storage.indexes import entry_scan
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.log import Log
from odradek.storage.log.lookup_budget import LookupBudget, TooLong
from odradek.storage.log.reading import RecordPosition
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log.time_lookup import Outdated, TimeLookup
from odradek.storage.log_config import LogConfig
from odradek.storage.segments import segment
from odradek.storage.segments.index_rebuild import IndexRebuild
from odradek.storage.segments.segment import Segment
from tests.support.logs import (
    FOLDER,
    NOW_MS,
    LogFolder,
    append,
    batch,
    read_all,
    truncate_log,
    truncate_log_fully,
)

SIZE = batch(1).size
COUNT = 300
"""Batches of one record; two closed segments and the one in use, all larger than 8 KiB."""
CONFIG = LogConfig(segment_bytes=120 * SIZE, index_interval_bytes=3 * SIZE)
IN_USE = LogConfig(segment_bytes=400 * SIZE, index_interval_bytes=3 * SIZE)
"""All of them in the segment in use."""
INDEX = f"{FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}"
TIME_INDEX = f"{FOLDER}/{names.file_name(0, names.TIME_INDEX)}"


def filled(config: LogConfig = CONFIG, count: int = COUNT) -> tuple[LogFolder, Log]:
    folder = LogFolder(config=config)
    log = folder.open()
    for each in range(count):
        append(log, batch(NOW_MS + each))
    return folder, log


@dataclass
class Rebuilds:
    """Has indexes rebuilt when a test says so, as a broker does it in a thread."""

    folder: LogFolder
    jobs: list[IndexRebuild] = field(default_factory=list)

    def watch(self) -> Rebuilds:
        self.folder.descriptors.serve(self._note)
        return self

    def _note(self, segment: Segment, reason: str) -> None:
        self.jobs.append(IndexRebuild(segment, reason))

    def run(self) -> None:
        (job,) = self.jobs
        self.jobs.clear()
        job.run(self.folder.files)
        while not job.finish(self.folder.files):
            job.run(self.folder.files)


def reopened(folder: LogFolder, log: Log, damage: Callable[[LogFolder], None]) -> Log:
    log.close(NOW_MS)
    damage(folder)
    return folder.open(was_clean=True)


def read_one(log: Log, offset: int) -> bytes:
    piece = log.read(offset, 1, up_to_offset=log.end_offset)
    assert piece is not None
    data = piece.read()
    piece.release()
    return data


@given(st.randoms(use_true_random=False))
def test_every_batch_is_found_with_any_content_of_the_offset_index(chance: random.Random) -> None:
    folder, log = filled()
    everything = read_all(log)
    log.close(NOW_MS)
    data = bytearray(folder.files.read(INDEX))
    for _ in range(chance.randint(1, 6)):
        kind = chance.choice(["flip", "cut", "repeat", "zeros", "shift"])
        at = chance.randrange(max(1, len(data)))
        if kind == "flip" and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif kind == "cut":
            del data[at:]
        elif kind == "repeat":
            data += data[at:]
        elif kind == "zeros":
            data[at : at + 16] = bytes(len(data[at : at + 16]))
        else:
            data[at:at] = data[:8]
    folder.files.replace(INDEX, bytes(data))
    log = folder.open(was_clean=True)
    for offset in chance.sample(range(COUNT), 40):
        assert read_one(log, offset) == everything[offset * SIZE : (offset + 1) * SIZE]


def remove_both(folder: LogFolder) -> None:
    folder.files.remove(INDEX)
    folder.files.remove(TIME_INDEX)


def shift_all(folder: LogFolder) -> None:
    data = folder.files.read(INDEX)
    entries = [(data[at : at + 4], data[at + 4 : at + 8]) for at in range(0, len(data), 8)]
    moved = [(offset, (int.from_bytes(at, "big") - 5).to_bytes(4, "big")) for offset, at in entries]
    folder.files.replace(INDEX, b"".join(offset + at for offset, at in moved))


def cut_times(folder: LogFolder) -> None:
    folder.files.replace(TIME_INDEX, folder.files.read(TIME_INDEX)[:7])


def empty_times(folder: LogFolder) -> None:
    folder.files.replace(TIME_INDEX, b"\xff" * 24)


@pytest.mark.parametrize("damage", [remove_both, shift_all, cut_times, empty_times])
def test_lookup_in_an_unusable_index_waits_until_it_is_rebuilt(
    damage: Callable[[LogFolder], None],
) -> None:
    folder, log = filled()
    everything = read_all(log)
    log = reopened(folder, log, damage)
    rebuilds = Rebuilds(folder).watch()
    for _ in range(2):
        with pytest.raises(IndexUnready) as refusal:
            read_one(log, 100)
        assert refusal.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert log.is_index_unready(100)
        assert not log.is_index_unready(200)
    with pytest.raises(IndexUnready):
        log.offset_for_timestamp(NOW_MS + 100, up_to_offset=COUNT)
    with pytest.raises(IndexUnready):
        truncate_log(log, 100)
    if damage is not shift_all:
        log.advance_high_watermark(COUNT)
        with pytest.raises(IndexUnready):
            delete_old_segments(log, now_ms=NOW_MS * 2)
    assert len(rebuilds.jobs) == 1, "however often it was asked for"
    assert (log.end_offset, len(log.segments)) == (COUNT, 3), "nothing was cut"
    assert read_one(log, 200) == everything[200 * SIZE : 201 * SIZE]
    rebuilds.run()
    assert not log.is_index_unready(100)
    assert read_all(log) == everything
    assert log.offset_for_timestamp(NOW_MS + 100, up_to_offset=COUNT) == (100, NOW_MS + 100, 0)
    log.check()
    assert not [name for name in folder.files.list(FOLDER) if "rebuilt" in name]
    log.close(NOW_MS)
    folder.open(was_clean=True).check()


@pytest.mark.parametrize("appended", [0, 1, 40, 200])
@pytest.mark.parametrize("is_before_the_run", [True, False])
def test_indexes_of_the_active_segment_are_rebuilt_while_it_is_appended_to(
    appended: int, is_before_the_run: bool
) -> None:
    folder, log = filled(IN_USE)
    rebuilds = Rebuilds(folder).watch()
    log.segments.active.write_indexes(is_last=False)
    folder.files.open(INDEX).truncate(0)
    with pytest.raises(IndexUnready):
        read_one(log, 1)
    (job,) = rebuilds.jobs
    if not is_before_the_run:
        job.run(folder.files)
    # More of it closes the segment meanwhile.
    for each in range(appended):
        append(log, batch(NOW_MS + COUNT + each))
    everything = b"".join(folder.files.read(each.handle.path) for each in log.segments)
    if is_before_the_run:
        job.run(folder.files)
    assert job.finish(folder.files)
    assert read_all(log) == everything
    log.check()
    append(log, batch(NOW_MS + 1_000))
    log.close(NOW_MS)
    again = folder.open(was_clean=True)
    again.check()
    assert read_all(again)[: len(everything)] == everything


def test_rebuild_runs_again_when_much_was_appended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("odradek.storage.segments.index_rebuild.REST_BYTES_MAX", 3 * SIZE)
    folder, log = filled(IN_USE)
    rebuilds = Rebuilds(folder).watch()
    log.segments.active.write_indexes(is_last=False)
    folder.files.open(INDEX).truncate(0)
    with pytest.raises(IndexUnready):
        read_one(log, 1)
    (job,) = rebuilds.jobs
    job.run(folder.files)
    append(log, *[batch(NOW_MS + COUNT + each) for each in range(5)])
    assert not job.finish(folder.files)
    assert log.is_index_unready(1)
    job.run(folder.files)
    append(log, batch(NOW_MS + COUNT + 5))
    assert job.finish(folder.files)
    log.check()
    assert len(read_all(log)) == (COUNT + 6) * SIZE


def test_rebuild_changes_nothing_after_a_truncation_or_deletion() -> None:
    for change in ("cut", "deleted", "offline"):
        folder, log = filled()
        log = reopened(folder, log, remove_both)
        rebuilds = Rebuilds(folder).watch()
        with pytest.raises(IndexUnready):
            read_one(log, 100)
        (job,) = rebuilds.jobs
        if change == "cut":
            truncate_log_fully(log, 0)
        elif change == "deleted":
            log.advance_log_start(150)
            log.advance_high_watermark(COUNT)
            delete_old_segments(log, now_ms=NOW_MS)
        job.run(folder.files)
        if change == "offline":
            log.abandon()
        assert job.finish(folder.files)
        assert not folder.descriptors.rebuilding
        if change != "offline":
            log.check()
            append(log, batch(NOW_MS + 1_000))
            log.check()


def test_damaged_segment_is_not_rebuilt_again_and_again() -> None:
    def damage(folder: LogFolder) -> None:
        remove_both(folder)
        path = f"{FOLDER}/{names.file_name(0, names.LOG)}"
        data = bytearray(folder.files.read(path))
        data[60 * SIZE + 16] = 99
        folder.files.replace(path, bytes(data))

    folder, log = filled()
    log = reopened(folder, log, damage)
    rebuilds = Rebuilds(folder).watch()
    with pytest.raises(IndexUnready):
        read_one(log, 100)
    rebuilds.run()
    for _ in range(2):
        with pytest.raises(BrokerError) as refusal:
            read_one(log, 100)
        assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert not rebuilds.jobs


def test_half_built_indexes_are_removed_by_the_next_start() -> None:
    folder, log = filled()
    log = reopened(folder, log, remove_both)
    rebuilds = Rebuilds(folder).watch()
    with pytest.raises(IndexUnready):
        read_one(log, 100)
    rebuilds.jobs[0].run(folder.files)
    assert [name for name in folder.files.list(FOLDER) if "rebuilt" in name]
    log.abandon()
    log = folder.open(was_clean=True)
    assert not [name for name in folder.files.list(FOLDER) if "rebuilt" in name]
    log.check()


def test_entries_too_far_apart_have_an_index_rebuilt_with_more_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_scan, "HEADERS_MAX", 70)
    folder, log = filled(LogConfig(segment_bytes=200 * SIZE, index_interval_bytes=150 * SIZE))
    everything = read_all(log)
    log.close(NOW_MS)
    before = len(folder.files.read(INDEX))
    log = folder.open(was_clean=True)
    assert read_one(log, 140) == everything[140 * SIZE : 141 * SIZE]
    assert len(folder.files.read(INDEX)) > before


def test_index_files_that_lose_entries_under_a_running_broker_are_replaced() -> None:
    for how in ("removed", "emptied"):
        folder, log = filled(count=100)
        log.segments.active.write_indexes(is_last=False)
        if how == "removed":
            folder.files.remove(INDEX)
        else:
            folder.files.open(INDEX).truncate(0)
        for each in range(150):
            append(log, batch(NOW_MS + 100 + each))
        assert len(log.segments) == 3
        log.check()
        log.close(NOW_MS)
        folder.open(was_clean=True).check()


# Searches by time.


def brute_force(batches: list[list[int]], wanted_ms: int, start: int) -> tuple[int, int] | None:
    offset = 0
    for timestamps in batches:
        for timestamp_ms in timestamps:
            if timestamp_ms >= wanted_ms and offset >= start:
                return offset, timestamp_ms
            offset += 1
    return None


def greatest(batches: list[list[int]], start: int) -> tuple[int, int] | None:
    flat = [timestamp_ms for timestamps in batches for timestamp_ms in timestamps]
    rest = [(timestamp_ms, -offset) for offset, timestamp_ms in enumerate(flat) if offset >= start]
    top = max(rest, default=(-1, 0))
    return None if top[0] < 0 else (-top[1], top[0])


times = st.one_of(st.integers(0, 30), st.integers(-1, 3), st.just(7))
many_batches = st.lists(st.lists(times, min_size=1, max_size=3), min_size=1, max_size=60)


def in_thread(log: Log, timestamp_ms: int | None) -> RecordPosition | None:
    lookup = TimeLookup(log, timestamp_ms)
    lookup.run(log.shared.files)
    lookup.finish()
    return lookup.result()


@given(
    many_batches,
    st.integers(0, 400),
    st.integers(200, 3_000),
    st.integers(0, 180),
    st.sampled_from(["open", "reopened", "truncated"]),
)
def test_search_by_time_equals_brute_force(
    batches: list[list[int]], interval_bytes: int, segment_bytes: int, start: int, state: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Every segment is searched by its indexes, however small it is.
        patch.setattr(segment, "SCAN_ONLY_BYTES", 0)
        folder = LogFolder(
            config=LogConfig(
                segment_bytes=segment_bytes, index_interval_bytes=interval_bytes, segment_ms=1 << 40
            )
        )
        log = folder.open()
        for timestamps in batches:
            append(log, batch(*timestamps))
        if state == "reopened":
            log.close(NOW_MS)
            log = folder.open(was_clean=True)
        elif state == "truncated":
            kept = len(batches) // 2
            truncate_log(log, sum(map(len, batches[:kept])))
            batches = batches[:kept]
        log.advance_log_start(min(start, log.end_offset))
        for wanted_ms in (0, 1, 2, 3, 7, 8, 15, 29, 30, 31):
            position = brute_force(batches, wanted_ms, start)
            expected = None if position is None else (*position, 0)
            assert log.offset_for_timestamp(wanted_ms, up_to_offset=1 << 40) == expected
            assert in_thread(log, wanted_ms) == expected
        top = greatest(batches, start)
        expected = None if top is None else (*top, 0)
        assert log.max_timestamp() == expected
        assert in_thread(log, None) == expected
        log.check()


def test_search_beyond_the_budget_raises_and_is_done_in_a_thread() -> None:
    config = LogConfig(segment_bytes=120 * SIZE, index_interval_bytes=3 * SIZE, segment_ms=1 << 40)
    folder, log = filled(config, count=120 * 40)
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    newest = NOW_MS + log.end_offset - 1

    def search(**effort: Any) -> RecordPosition | None:
        return log.offset_for_timestamp(newest, up_to_offset=log.end_offset, **effort)

    with pytest.raises(TooLong):
        search(budget=LookupBudget())
    expected = (log.end_offset - 1, newest, 0)
    assert in_thread(log, newest) == expected
    assert search(budget=LookupBudget()) == expected, "the times are known from then on"
    append(log, batch(*range(newest, newest + 600), value=b"v"))
    with pytest.raises(TooLong):
        log.offset_for_timestamp(newest + 1, up_to_offset=1 << 40, budget=LookupBudget())
    log.advance_log_start(1)
    with pytest.raises(TooLong):
        log.max_timestamp(budget=LookupBudget())


def test_search_that_a_truncation_has_overtaken_is_not_used() -> None:
    _, log = filled()
    lookup = TimeLookup(log, NOW_MS + 250)
    lookup.run(log.shared.files)
    truncate_log(log, 200)
    lookup.finish()
    with pytest.raises(Outdated):
        lookup.result()
    lookup = TimeLookup(log, NOW_MS + 100)
    log.advance_log_start(150)
    lookup.run(log.shared.files)
    lookup.finish()
    with pytest.raises(Outdated):
        lookup.result()


def test_search_over_removed_files_is_outdated() -> None:
    _, log = filled()
    lookup = TimeLookup(log, NOW_MS + 125)
    log.advance_log_start(250)
    log.advance_high_watermark(COUNT)
    delete_old_segments(log, now_ms=NOW_MS)
    lookup.run(log.shared.files)
    lookup.finish()
    with pytest.raises(Outdated):
        lookup.result()


def test_search_that_meets_an_unusable_index_waits_for_it() -> None:
    folder, log = filled()
    log = reopened(folder, log, cut_times)
    rebuilds = Rebuilds(folder).watch()
    lookup = TimeLookup(log, NOW_MS + 100)
    lookup.run(folder.files)
    lookup.finish()
    with pytest.raises(IndexUnready):
        lookup.result()
    rebuilds.run()
    assert in_thread(log, NOW_MS + 100) == (100, NOW_MS + 100, 0)


def test_small_active_segment_is_appended_to_at_once_whatever_its_indexes() -> None:
    folder, log = filled(count=5)
    log = reopened(folder, log, remove_both)
    rebuilds = Rebuilds(folder).watch()
    append(log, batch(NOW_MS + 5))
    assert not rebuilds.jobs
    assert log.max_timestamp() == (5, NOW_MS + 5, 0)
    log.check()


def test_append_fails_retriably_while_the_active_segment_has_no_index() -> None:
    folder, log = filled(IN_USE)
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    rebuilds = Rebuilds(folder).watch()
    log.segments[0].drop()
    remove_both(folder)
    (result,) = log.append([batch(NOW_MS)], leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(result, BrokerError)
    assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
    rebuilds.run()
    append(log, batch(NOW_MS))
    log.check()
