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
from odradek.storage.log.time_lookup import Outdated, TimeLookup
from odradek.storage.log_config import LogConfig
from odradek.storage.segments import segment
from odradek.storage.segments.index_rebuild import IndexRebuild
from odradek.storage.segments.segment import Segment
from tests.support.logs import FOLDER, NOW_MS, LogHouse, append, batch, read_all

SIZE = batch(1).size
COUNT = 300
"""Batches of one record; two closed segments and the one in use, all larger than 8 KiB."""
CONFIG = LogConfig(segment_bytes=120 * SIZE, index_interval_bytes=3 * SIZE)
IN_USE = LogConfig(segment_bytes=400 * SIZE, index_interval_bytes=3 * SIZE)
"""All of them in the segment in use."""
INDEX = f"{FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}"
TIME_INDEX = f"{FOLDER}/{names.file_name(0, names.TIME_INDEX)}"


def filled(config: LogConfig = CONFIG, count: int = COUNT) -> tuple[LogHouse, Log]:
    house = LogHouse(config=config)
    log = house.open()
    for each in range(count):
        append(log, batch(NOW_MS + each))
    return house, log


@dataclass
class Rebuilds:
    """Has indexes rebuilt when a test says so, as a broker does it in a thread."""

    house: LogHouse
    wanted: list[IndexRebuild] = field(default_factory=list)

    def watch(self) -> Rebuilds:
        self.house.descriptors.rebuild_later = self._note
        return self

    def _note(self, segment: Segment, reason: str) -> None:
        self.wanted.append(IndexRebuild(segment, reason))

    def run(self) -> None:
        (job,) = self.wanted
        self.wanted.clear()
        job.run(self.house.files)
        while not job.finish(self.house.files):
            job.run(self.house.files)


def reopened(house: LogHouse, log: Log, damage: Callable[[LogHouse], None]) -> Log:
    log.close(NOW_MS)
    damage(house)
    return house.open(was_clean=True)


def read_one(log: Log, offset: int) -> bytes:
    piece = log.read(offset, 1, up_to_offset=log.end_offset)
    assert piece is not None
    data = piece.read()
    piece.release()
    return data


@given(st.randoms(use_true_random=False))
def test_whatever_is_in_an_offset_index_every_batch_is_found(chance: random.Random) -> None:
    house, log = filled()
    everything = read_all(log)
    log.close(NOW_MS)
    data = bytearray(house.files.read(INDEX))
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
    house.files.replace(INDEX, bytes(data))
    log = house.open(was_clean=True)
    for offset in chance.sample(range(COUNT), 40):
        assert read_one(log, offset) == everything[offset * SIZE : (offset + 1) * SIZE]


def remove_both(house: LogHouse) -> None:
    house.files.remove(INDEX)
    house.files.remove(TIME_INDEX)


def shift_all(house: LogHouse) -> None:
    data = house.files.read(INDEX)
    entries = [(data[at : at + 4], data[at + 4 : at + 8]) for at in range(0, len(data), 8)]
    moved = [(offset, (int.from_bytes(at, "big") - 5).to_bytes(4, "big")) for offset, at in entries]
    house.files.replace(INDEX, b"".join(offset + at for offset, at in moved))


def cut_times(house: LogHouse) -> None:
    house.files.replace(TIME_INDEX, house.files.read(TIME_INDEX)[:7])


def empty_times(house: LogHouse) -> None:
    house.files.replace(TIME_INDEX, b"\xff" * 24)


@pytest.mark.parametrize("damage", [remove_both, shift_all, cut_times, empty_times])
def test_what_needs_an_unusable_index_waits_until_it_is_rebuilt(
    damage: Callable[[LogHouse], None],
) -> None:
    house, log = filled()
    everything = read_all(log)
    log = reopened(house, log, damage)
    rebuilds = Rebuilds(house).watch()
    for _ in range(2):
        with pytest.raises(IndexUnready) as refusal:
            read_one(log, 100)
        assert refusal.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert log.is_index_unready(100)
        assert not log.is_index_unready(200)
    with pytest.raises(IndexUnready):
        log.offset_for_timestamp(NOW_MS + 100, up_to_offset=COUNT)
    with pytest.raises(IndexUnready):
        log.truncate_to(100)
    if damage is not shift_all:
        log.advance_high_watermark(COUNT)
        with pytest.raises(IndexUnready):
            log.delete_old_segments(now_ms=NOW_MS * 2)
    assert len(rebuilds.wanted) == 1, "however often it was asked for"
    assert (log.end_offset, len(log.segments)) == (COUNT, 3), "nothing was cut"
    assert read_one(log, 200) == everything[200 * SIZE : 201 * SIZE]
    rebuilds.run()
    assert not log.is_index_unready(100)
    assert read_all(log) == everything
    assert log.offset_for_timestamp(NOW_MS + 100, up_to_offset=COUNT) == (100, NOW_MS + 100, 0)
    log.check()
    assert not [name for name in house.files.list(FOLDER) if "rebuilt" in name]
    log.close(NOW_MS)
    house.open(was_clean=True).check()


@pytest.mark.parametrize("appended", [0, 1, 40, 200])
@pytest.mark.parametrize("is_before_the_run", [True, False])
def test_the_segment_in_use_gets_its_indexes_while_it_is_appended_to(
    appended: int, is_before_the_run: bool
) -> None:
    house, log = filled(IN_USE)
    rebuilds = Rebuilds(house).watch()
    log.active.write_indexes(is_last=False)
    house.files.open(INDEX).truncate(0)
    with pytest.raises(IndexUnready):
        read_one(log, 1)
    (job,) = rebuilds.wanted
    if not is_before_the_run:
        job.run(house.files)
    # More of it closes the segment meanwhile.
    for each in range(appended):
        append(log, batch(NOW_MS + COUNT + each))
    everything = b"".join(house.files.read(each.handle.path) for each in log.segments)
    if is_before_the_run:
        job.run(house.files)
    assert job.finish(house.files)
    assert read_all(log) == everything
    log.check()
    append(log, batch(NOW_MS + 1_000))
    log.close(NOW_MS)
    again = house.open(was_clean=True)
    again.check()
    assert read_all(again)[: len(everything)] == everything


def test_a_rebuild_runs_again_when_much_was_appended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("odradek.storage.segments.index_rebuild.REST_BYTES_MAX", 3 * SIZE)
    house, log = filled(IN_USE)
    rebuilds = Rebuilds(house).watch()
    log.active.write_indexes(is_last=False)
    house.files.open(INDEX).truncate(0)
    with pytest.raises(IndexUnready):
        read_one(log, 1)
    (job,) = rebuilds.wanted
    job.run(house.files)
    append(log, *[batch(NOW_MS + COUNT + each) for each in range(5)])
    assert not job.finish(house.files)
    assert log.is_index_unready(1)
    job.run(house.files)
    append(log, batch(NOW_MS + COUNT + 5))
    assert job.finish(house.files)
    log.check()
    assert len(read_all(log)) == (COUNT + 6) * SIZE


def test_a_rebuild_of_what_is_cut_or_deleted_meanwhile_changes_nothing() -> None:
    for change in ("cut", "deleted", "offline"):
        house, log = filled()
        log = reopened(house, log, remove_both)
        rebuilds = Rebuilds(house).watch()
        with pytest.raises(IndexUnready):
            read_one(log, 100)
        (job,) = rebuilds.wanted
        if change == "cut":
            log.truncate_fully_and_start_at(0)
        elif change == "deleted":
            log.advance_log_start(150)
            log.advance_high_watermark(COUNT)
            log.delete_old_segments(now_ms=NOW_MS)
        job.run(house.files)
        if change == "offline":
            log.abandon()
        assert job.finish(house.files)
        assert not house.descriptors.rebuilding
        if change != "offline":
            log.check()
            append(log, batch(NOW_MS + 1_000))
            log.check()


def test_a_damaged_segment_is_not_rebuilt_again_and_again() -> None:
    def damage(house: LogHouse) -> None:
        remove_both(house)
        path = f"{FOLDER}/{names.file_name(0, names.LOG)}"
        data = bytearray(house.files.read(path))
        data[60 * SIZE + 16] = 99
        house.files.replace(path, bytes(data))

    house, log = filled()
    log = reopened(house, log, damage)
    rebuilds = Rebuilds(house).watch()
    with pytest.raises(IndexUnready):
        read_one(log, 100)
    rebuilds.run()
    for _ in range(2):
        with pytest.raises(BrokerError) as refusal:
            read_one(log, 100)
        assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert not rebuilds.wanted


def test_indexes_that_were_being_rebuilt_at_a_crash_are_gone_after_a_start() -> None:
    house, log = filled()
    log = reopened(house, log, remove_both)
    rebuilds = Rebuilds(house).watch()
    with pytest.raises(IndexUnready):
        read_one(log, 100)
    rebuilds.wanted[0].run(house.files)
    assert [name for name in house.files.list(FOLDER) if "rebuilt" in name]
    log.abandon()
    log = house.open(was_clean=True)
    assert not [name for name in house.files.list(FOLDER) if "rebuilt" in name]
    log.check()


def test_entries_too_far_apart_have_an_index_rebuilt_with_more_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_scan, "HEADERS_MAX", 70)
    house, log = filled(LogConfig(segment_bytes=200 * SIZE, index_interval_bytes=150 * SIZE))
    everything = read_all(log)
    log.close(NOW_MS)
    before = len(house.files.read(INDEX))
    log = house.open(was_clean=True)
    assert read_one(log, 140) == everything[140 * SIZE : 141 * SIZE]
    assert len(house.files.read(INDEX)) > before


def test_index_files_that_lose_entries_under_a_running_broker_are_replaced() -> None:
    for how in ("removed", "emptied"):
        house, log = filled(count=100)
        log.active.write_indexes(is_last=False)
        if how == "removed":
            house.files.remove(INDEX)
        else:
            house.files.open(INDEX).truncate(0)
        for each in range(150):
            append(log, batch(NOW_MS + 100 + each))
        assert len(log.segments) == 3
        log.check()
        log.close(NOW_MS)
        house.open(was_clean=True).check()


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
def test_a_search_by_time_equals_brute_force(
    batches: list[list[int]], interval_bytes: int, segment_bytes: int, start: int, state: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Every segment is searched by its indexes, however small it is.
        patch.setattr(segment, "SCAN_ONLY_BYTES", 0)
        house = LogHouse(
            config=LogConfig(
                segment_bytes=segment_bytes, index_interval_bytes=interval_bytes, segment_ms=1 << 40
            )
        )
        log = house.open()
        for timestamps in batches:
            append(log, batch(*timestamps))
        if state == "reopened":
            log.close(NOW_MS)
            log = house.open(was_clean=True)
        elif state == "truncated":
            kept = len(batches) // 2
            log.truncate_to(sum(map(len, batches[:kept])))
            batches = batches[:kept]
        log.advance_log_start(min(start, log.end_offset))
        for wanted_ms in (0, 1, 2, 3, 7, 8, 15, 29, 30, 31):
            found = brute_force(batches, wanted_ms, start)
            expected = None if found is None else (*found, 0)
            assert log.offset_for_timestamp(wanted_ms, up_to_offset=1 << 40) == expected
            assert in_thread(log, wanted_ms) == expected
        top = greatest(batches, start)
        expected = None if top is None else (*top, 0)
        assert log.max_timestamp() == expected
        assert in_thread(log, None) == expected
        log.check()


def test_what_is_too_long_for_the_loop_says_so_and_is_found_in_a_thread() -> None:
    config = LogConfig(segment_bytes=120 * SIZE, index_interval_bytes=3 * SIZE, segment_ms=1 << 40)
    house, log = filled(config, count=120 * 40)
    log.close(NOW_MS)
    log = house.open(was_clean=True)
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


def test_a_search_that_a_truncation_has_overtaken_is_not_used() -> None:
    _, log = filled()
    lookup = TimeLookup(log, NOW_MS + 250)
    lookup.run(log.shared.files)
    log.truncate_to(200)
    lookup.finish()
    with pytest.raises(Outdated):
        lookup.result()
    lookup = TimeLookup(log, NOW_MS + 100)
    log.advance_log_start(150)
    lookup.run(log.shared.files)
    lookup.finish()
    with pytest.raises(Outdated):
        lookup.result()


def test_a_search_over_files_that_are_gone_begins_again() -> None:
    _, log = filled()
    lookup = TimeLookup(log, NOW_MS + 125)
    log.advance_log_start(250)
    log.advance_high_watermark(COUNT)
    log.delete_old_segments(now_ms=NOW_MS)
    lookup.run(log.shared.files)
    lookup.finish()
    with pytest.raises(Outdated):
        lookup.result()


def test_a_search_that_meets_an_unusable_index_waits_for_it() -> None:
    house, log = filled()
    log = reopened(house, log, cut_times)
    rebuilds = Rebuilds(house).watch()
    lookup = TimeLookup(log, NOW_MS + 100)
    lookup.run(house.files)
    lookup.finish()
    with pytest.raises(IndexUnready):
        lookup.result()
    rebuilds.run()
    assert in_thread(log, NOW_MS + 100) == (100, NOW_MS + 100, 0)


def test_a_small_segment_in_use_is_appended_to_at_once_whatever_its_indexes() -> None:
    house, log = filled(count=5)
    log = reopened(house, log, remove_both)
    rebuilds = Rebuilds(house).watch()
    append(log, batch(NOW_MS + 5))
    assert not rebuilds.wanted
    assert log.max_timestamp() == (5, NOW_MS + 5, 0)
    log.check()


def test_producers_are_asked_to_try_again_while_the_segment_in_use_has_no_index() -> None:
    house, log = filled(IN_USE)
    log.close(NOW_MS)
    log = house.open(was_clean=True)
    rebuilds = Rebuilds(house).watch()
    log.segments[0].drop()
    remove_both(house)
    (result,) = log.append([batch(NOW_MS)], leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(result, BrokerError)
    assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
    rebuilds.run()
    append(log, batch(NOW_MS))
    log.check()
