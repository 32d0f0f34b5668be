from __future__ import annotations

import random
import tracemalloc

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.storage.files import names
from odradek.storage.files.descriptors import FileSlice
from odradek.storage.log.log import Log
from odradek.storage.log.lookup_budget import OUTPUT_BYTES_MAX, LookupBudget, TooLong
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log.time_lookup import TimeLookup
from odradek.storage.log_config import LogConfig
from tests.support.logs import (
    FOLDER,
    NOW_MS,
    LogFolder,
    append,
    batch,
    marker,
    read_all,
    truncate_log,
)
from tests.support.record_batches import parsed

SIZE = batch(1).size


def taken(piece: FileSlice | None) -> bytes:
    if piece is None:
        return b""
    data = piece.read()
    assert len(data) == len(piece)
    piece.release()
    return data


def filled(count: int = 200, segment_bytes: int = 20 * SIZE, **settings: int) -> Log:
    log = LogFolder(
        config=LogConfig(segment_bytes=segment_bytes, **settings)  # type: ignore[arg-type]
    ).open()
    for each in range(count):
        append(log, batch(NOW_MS + each))
    return log


def test_every_offset_is_found_in_closed_segments_and_at_the_end() -> None:
    log = filled(index_interval_bytes=3 * SIZE)
    everything = read_all(log)
    for offset in range(200):
        data = taken(log.read(offset, 1, up_to_offset=200))
        assert data == everything[offset * SIZE : (offset + 1) * SIZE]
    log.close(NOW_MS)


def test_large_segments_are_read_through_their_index() -> None:
    log = filled(400, segment_bytes=1 << 20, index_interval_bytes=7 * SIZE)
    everything = read_all(log)
    for offset in range(0, 400, 7):
        piece = log.read(offset, 5 * SIZE, up_to_offset=400)
        assert taken(piece) == everything[offset * SIZE : (offset + 5) * SIZE]


def test_read_ends_at_max_bytes_but_returns_the_first_batch_whole() -> None:
    log = filled(10, segment_bytes=1 << 20)
    everything = read_all(log)
    assert (
        taken(log.read(2, 3 * SIZE + 10, up_to_offset=10)) == everything[2 * SIZE : 5 * SIZE + 10]
    )
    assert taken(log.read(2, 5, up_to_offset=10)) == everything[2 * SIZE : 3 * SIZE]
    assert taken(log.read(2, 0, up_to_offset=10)) == everything[2 * SIZE : 3 * SIZE]
    assert log.read(2, SIZE - 1, up_to_offset=10, at_least_one=False) is None
    assert len(taken(log.read(2, SIZE, up_to_offset=10, at_least_one=False))) == SIZE


@pytest.mark.parametrize("count", [10, 300])
def test_read_returns_no_batch_at_or_after_up_to_offset(count: int) -> None:
    log = filled(count, segment_bytes=40 * SIZE)
    everything = read_all(log)
    for up_to in (1, count // 2, count - 1):
        assert read_all(log, 0, up_to) == everything[: up_to * SIZE]
        assert log.read(up_to, 1_000, up_to_offset=up_to) is None
    assert log.read(count, 1_000, up_to_offset=count) is None
    assert log.read(count - 1, 1_000, up_to_offset=0) is None


def test_read_of_an_offset_inside_a_batch_returns_the_batch() -> None:
    log = LogFolder().open()
    append(log, batch(1, 2, 3), batch(4, 5))
    piece = log.read(1, 1, up_to_offset=5)
    data = taken(piece)
    assert data == taken(log.read(0, 1, up_to_offset=5))
    assert taken(log.read(4, 1, up_to_offset=5)) == taken(log.read(3, 1, up_to_offset=5))


@pytest.mark.parametrize("offset", [-1, 4, 11, 10**15])
def test_read_outside_of_the_log_raises_offset_out_of_range(offset: int) -> None:
    log = filled(10)
    log.advance_log_start(5)
    with pytest.raises(BrokerError) as refusal:
        log.read(offset, 100, up_to_offset=10)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_bytes_between_counts_over_segments_and_up_to_its_limit() -> None:
    log = filled(100)
    assert log.bytes_between(0, 100, 10**9) == 100 * SIZE
    assert log.bytes_between(13, 57, 10**9) == 44 * SIZE
    assert log.bytes_between(99, 100, 10**9) == SIZE
    assert log.bytes_between(100, 100, 10**9) == 0
    assert log.bytes_between(5, 3, 10**9) == 0
    assert log.bytes_between(0, 100, 50) == 50


def test_slice_outlives_the_deletion_and_the_closing_of_its_segment() -> None:
    folder = LogFolder(config=LogConfig(segment_bytes=2 * SIZE, retention_bytes=0))
    log = folder.open()
    for each in range(5):
        append(log, batch(each))
    expected = read_all(log)[: 2 * SIZE]
    piece = log.read(0, 10**6, up_to_offset=5)
    assert piece is not None
    log.advance_high_watermark(5)
    for removed in delete_old_segments(log, now_ms=NOW_MS):
        for path in removed.paths:
            folder.files.remove(path)
    log.close(NOW_MS)
    assert piece.read() == expected
    assert folder.descriptors.open_count == 1
    piece.release()
    piece.release()
    assert folder.descriptors.open_count == 0


def brute_force(
    records: list[tuple[int, int]], wanted_ms: int, start: int, end: int
) -> tuple[int, int] | None:
    for offset, timestamp_ms in records:
        if timestamp_ms >= wanted_ms and start <= offset:
            return (offset, timestamp_ms) if offset < end else None
    return None


def shuffled_log(count: int, per_batch: int, codec: int, seed: int) -> tuple[Log, list[int]]:
    chance = random.Random(seed)
    timestamps = list(range(1_000, 1_000 + 3 * count, 3))
    # Blocks are shuffled, so that the time index has something to say.
    for start in range(0, count, 5_000):
        block = timestamps[start : start + 5_000]
        chance.shuffle(block)
        timestamps[start : start + 5_000] = block
    log = LogFolder(config=LogConfig(segment_bytes=200_000, segment_ms=10**12)).open()
    for start in range(0, count, per_batch):
        append(log, batch(*timestamps[start : start + per_batch], value=b"v", codec=codec))
    return log, timestamps


def test_time_search_equals_brute_force_on_100_000_shuffled_records() -> None:
    log, timestamps = shuffled_log(100_000, 100, 0, 1)
    assert log.end_offset == 100_000
    assert len(log.segments) > 3
    highest: list[int] = []
    for timestamp_ms in timestamps:
        highest.append(max(timestamp_ms, highest[-1] if highest else -1))
    chance = random.Random(2)
    times_ms = [0, 999, 1_000, 1_001, timestamps[0], max(timestamps), max(timestamps) + 1]
    times_ms += [chance.choice(timestamps) + chance.choice((-1, 0, 1)) for _ in range(150)]
    for wanted_ms in times_ms:
        offset = next((at for at, top in enumerate(highest) if top >= wanted_ms), None)
        expected = None if offset is None else (offset, timestamps[offset], 0)
        assert log.offset_for_timestamp(wanted_ms, up_to_offset=100_000) == expected
    top = timestamps.index(max(timestamps))
    assert log.max_timestamp() == (top, timestamps[top], 0)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_time_search_respects_start_end_and_truncation_in_every_codec(codec: int) -> None:
    log, timestamps = shuffled_log(2_000, 25, codec, codec)
    records = list(enumerate(timestamps))
    chance = random.Random(9)
    for start, end in [(0, 2_000), (333, 1_777), (1_010, 1_500)]:
        if end < 1_777:
            truncate_log(log, end)
            records = records[:end]
        log.advance_log_start(start)
        for _ in range(40):
            wanted_ms = chance.choice(timestamps)
            position = log.offset_for_timestamp(wanted_ms, up_to_offset=end)
            assert (position[:2] if position else None) == brute_force(
                records, wanted_ms, start, end
            )
        rest = [(timestamp, -offset) for offset, timestamp in records if offset >= start]
        greatest, offset = max(rest)
        assert log.max_timestamp() == (-offset, greatest, 0)
        assert log.max_timestamp(up_to_offset=-offset) is None


def test_records_without_time_are_never_found_by_time() -> None:
    log = LogFolder().open()
    append(log, batch(-1), batch(-1))
    assert log.offset_for_timestamp(0, up_to_offset=2) is None
    assert log.max_timestamp() is None
    append(log, batch(5))
    assert log.offset_for_timestamp(0, up_to_offset=3) == (2, 5, 0)


def test_append_time_counts_for_every_record_of_a_batch() -> None:
    log = LogFolder().open()
    data = build_batch(
        [Record(None, b"v", timestamp_ms=each) for each in (1, 2, 3)], log_append_time_ms=500
    )
    log.append_as_follower(memoryview(data), now_ms=NOW_MS)
    assert log.offset_for_timestamp(400, up_to_offset=3) == (0, 500, -1)
    assert log.max_timestamp() == (0, 500, -1)


def test_aborted_transactions_are_found_over_segments() -> None:
    log = LogFolder(config=LogConfig(segment_bytes=400)).open()
    expected = []
    for producer_id in range(1, 9):
        (data,) = append(
            log,
            batch(
                1, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
            ),
        )
        append(log, batch(1), marker(producer_id=producer_id, is_commit=producer_id % 2 == 0))
        if producer_id % 2:
            expected.append((producer_id, data.base_offset))
    assert len(log.segments) > 3
    assert aborted_transactions(log.segments, 0, log.end_offset) == expected
    assert aborted_transactions(log.segments, 0, 1) == expected[:1]
    assert aborted_transactions(log.segments, 3, 6) == []
    log.close(NOW_MS)


def test_aborted_transactions_of_a_read_are_those_up_to_the_next_index_entry() -> None:
    log = LogFolder(config=LogConfig(index_interval_bytes=400, segment_ms=2**62)).open()
    for producer_id in range(1, 101):
        append(
            log,
            batch(
                1, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
            ),
        )
        append(log, marker(producer_id=producer_id, is_commit=False))
    for start_offset in (0, 51, 100, 199):
        records = log.read(start_offset, 1, up_to_offset=log.end_offset)
        assert records is not None
        aborted = log.aborted_within(start_offset, records)
        records.release()
        expected = aborted_transactions(log.segments, start_offset, start_offset + 1)
        assert expected == [(start_offset // 2 + 1, start_offset // 2 * 2)]
        assert aborted[:1] == expected
        assert len(aborted) < 6
    records = log.read(0, 1 << 20, up_to_offset=log.end_offset)
    assert records is not None
    assert log.aborted_within(0, records) == aborted_transactions(log.segments, 0, log.end_offset)
    records.release()
    log.close(NOW_MS)


def test_rebuild_that_meets_damage_keeps_the_entries_after_it() -> None:
    folder = LogFolder(config=LogConfig(segment_bytes=200 * SIZE, index_interval_bytes=3 * SIZE))
    log = folder.open()
    for each in range(250):
        append(log, batch(NOW_MS + each))
    everything = read_all(log)
    log.close(NOW_MS)
    path = f"{FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}"
    good = folder.files.read(path)
    misleading = (int.from_bytes(good[12:16], "big") + 5).to_bytes(4, "big")
    folder.files.replace(path, good[:12] + misleading + good[16:])
    with_damage = bytearray(folder.files.read(log.segments[0].handle.path))
    with_damage[100 * SIZE + 16] = 9
    folder.files.replace(log.segments[0].handle.path, bytes(with_damage))
    log = folder.open(was_clean=True)
    with pytest.raises(BrokerError) as damaged:
        log.read(9, 1, up_to_offset=250)
    assert damaged.value.code is ErrorCode.CORRUPT_MESSAGE
    assert taken(log.read(190, 1, up_to_offset=250)) == everything[190 * SIZE : 191 * SIZE]
    log.abandon()


def test_misleading_index_of_a_closed_segment_is_rebuilt() -> None:
    folder = LogFolder(config=LogConfig(segment_bytes=200 * SIZE, index_interval_bytes=3 * SIZE))
    log = folder.open()
    for each in range(250):
        append(log, batch(NOW_MS + each))
    everything = read_all(log)
    log.close(NOW_MS)
    path = f"{FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}"
    good = folder.files.read(path)
    shifted = b"".join(
        good[at : at + 4] + (int.from_bytes(good[at + 4 : at + 8], "big") + 5).to_bytes(4, "big")
        for at in range(0, len(good), 8)
    )
    later = good[:-8] + good[-8:-4] + (199 * SIZE).to_bytes(4, "big")
    for content in (shifted, later, b"", good[:9], b"\xff" * 800, None):
        if content is None:
            folder.files.remove(path)
        else:
            folder.files.replace(path, content)
        log = folder.open(was_clean=True)
        for offset in range(190, 199):
            data = taken(log.read(offset, 1, up_to_offset=250))
            assert data == everything[offset * SIZE : (offset + 1) * SIZE]
        assert log.offset_for_timestamp(NOW_MS + 195, up_to_offset=250) is not None
        log.abandon()
    folder.open(was_clean=True).check()
    assert folder.files.read(path), "it was rebuilt and kept"


@pytest.mark.parametrize("codec", [1, 4])
def test_small_batch_that_grows_when_it_is_decompressed_is_not_searched_on_the_loop(
    codec: int,
) -> None:
    log = LogFolder().open()
    value = bytes(2 * OUTPUT_BYTES_MAX)
    append(log, parsed(build_batch([Record(b"k", value, timestamp_ms=NOW_MS)], codec=codec)))
    with pytest.raises(TooLong):
        log.offset_for_timestamp(NOW_MS, up_to_offset=1, budget=LookupBudget())
    with pytest.raises(TooLong):
        log.max_timestamp(up_to_offset=1, budget=LookupBudget())
    position = log.offset_for_timestamp(NOW_MS, up_to_offset=1)
    assert position is not None
    assert position[:2] == (0, NOW_MS)


@pytest.mark.parametrize("codec", [1, 4])
def test_failed_search_does_not_keep_what_it_has_decompressed(codec: int) -> None:
    folder = LogFolder()
    log = folder.open()
    value = bytes(101 << 20)
    append(log, parsed(build_batch([Record(b"k", value, timestamp_ms=NOW_MS)], codec=codec)))
    lookup = TimeLookup(log, NOW_MS)
    tracemalloc.start()
    try:
        lookup.run(folder.files)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    lookup.finish()
    with pytest.raises(BrokerError) as raised:
        lookup.result()
    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert kept_bytes < 16 << 20
