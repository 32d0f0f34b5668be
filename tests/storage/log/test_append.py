from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch, set_log_append_time
from odradek.storage.files import names
from odradek.storage.log.head import Appended
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log.rolling import roll_jitter_ms
from odradek.storage.log_config import LogConfig
from tests.support.logs import FOLDER, NOW_MS, LogFolder, append, batch, marker, read_all


def offsets(results: list[Appended]) -> list[tuple[int, int]]:
    return [(result.base_offset, result.last_offset) for result in results]


def bases(log: Log) -> list[int]:
    return log.segments.base_offsets


def error_of(result: Appended | BrokerError) -> ErrorCode:
    assert isinstance(result, BrokerError)
    return result.code


def test_offsets_and_epoch_are_set_in_the_memory_of_each_batch() -> None:
    log = LogFolder().open()
    first, second, third = batch(1, 2, 3), batch(4), batch(5, 6)
    assert offsets(append(log, first, second, leader_epoch=7)) == [(0, 2), (3, 3)]
    assert offsets(append(log, third, leader_epoch=7)) == [(4, 5)]
    stored = [RecordBatch(sent.view) for sent in (first, second, third)]
    assert [each.base_offset for each in stored] == [0, 3, 4]
    assert {each.leader_epoch for each in stored} == {7}
    assert read_all(log) == b"".join(bytes(each.view) for each in stored)
    assert log.leader_epochs.entries == ((7, 0),)
    log.check()


def test_several_batches_are_written_with_one_call() -> None:
    folder = LogFolder()
    log = folder.open()
    append(log, batch(1))
    before = folder.files.operations
    append(log, *[batch(each) for each in range(20)])
    assert folder.files.operations == before + 1


def test_batches_of_one_call_are_split_at_a_roll() -> None:
    size = batch(1).size
    log = LogFolder(config=LogConfig(segment_bytes=size * 3)).open()
    results = append(log, *[batch(each) for each in range(8)])
    assert [result.base_offset for result in results] == list(range(8))
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [size * 3, size * 3, size * 2]
    log.check()


def test_segment_is_rolled_by_the_age_of_its_batches() -> None:
    log = LogFolder(config=LogConfig(segment_ms=100)).open()
    append(log, batch(1_000))
    append(log, batch(1_100))
    append(log, batch(500))
    assert bases(log) == [0]
    append(log, batch(1_101))
    assert bases(log) == [0, 3]
    append(log, batch(1_102), batch(1_202), batch(1_201))
    assert bases(log) == [0, 3, 5]


def test_segment_without_timestamps_is_rolled_by_its_own_age() -> None:
    log = LogFolder(config=LogConfig(segment_ms=100)).open(now_ms=5_000)
    append(log, batch(-1), now_ms=5_100)
    append(log, batch(-1), now_ms=5_100)
    assert bases(log) == [0]
    append(log, batch(-1), now_ms=5_101)
    assert bases(log) == [0, 2]


def test_segment_is_rolled_when_an_index_is_full() -> None:
    config = LogConfig(segment_index_bytes=48, index_interval_bytes=0)
    log = LogFolder(config=config).open()
    for each in range(12):
        append(log, batch(each))
    # 48 bytes hold three entries of the time index beside the one made at the end.
    assert bases(log) == [0, 4, 8]
    single = list(log.segments.base_offsets)
    gathered = LogFolder(config=config).open()
    append(gathered, *[batch(each) for each in range(12)])
    assert bases(gathered) == single
    gathered.check()


def test_every_batch_gets_a_segment_when_an_index_has_no_entry_left() -> None:
    log = LogFolder(config=LogConfig(segment_index_bytes=4)).open()
    append(log, batch(1), batch(2), batch(3))
    assert bases(log) == [0, 1, 2]


def test_jitter_rolls_a_segment_earlier_and_is_the_same_after_a_start() -> None:
    folder = LogFolder(config=LogConfig(segment_ms=1_000, segment_jitter_ms=900))
    log = folder.open()
    append(log, batch(10_000))
    jitter = roll_jitter_ms(log.config, log.topic, log.partition, 0)
    assert 0 < jitter < 900
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    append(log, batch(11_000 - jitter))
    assert bases(log) == [0]
    append(log, batch(11_001 - jitter))
    assert bases(log) == [0, 2]


def test_new_settings_take_effect_on_an_open_log() -> None:
    log = LogFolder().open()
    append(log, batch(1))
    log.config = LogConfig(segment_bytes=batch(1).size * 2)
    append(log, batch(2))
    append(log, batch(3))
    assert bases(log) == [0, 2]


def test_batch_larger_than_a_segment_is_refused_and_the_others_are_appended() -> None:
    log = LogFolder(config=LogConfig(segment_bytes=200)).open()
    results = log.append(
        [batch(1), batch(2, value=b"x" * 300), batch(3)], leader_epoch=0, now_ms=NOW_MS
    )
    assert error_of(results[1]) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.end_offset == 2
    log.check()


def sequenced(sequence: int, count: int = 1, epoch: int = 0) -> RecordBatch:
    return batch(*[NOW_MS] * count, producer_id=5, producer_epoch=epoch, base_sequence=sequence)


def test_duplicate_returns_its_first_result_and_is_not_written_again() -> None:
    log = LogFolder().open()
    append(log, sequenced(0, 3))
    append(log, sequenced(3))
    size = log.segments.size_bytes()
    (again,) = append(log, sequenced(0, 3))
    assert (again.base_offset, again.last_offset, again.is_duplicate) == (0, 2, True)
    assert log.segments.size_bytes() == size


def test_duplicates_of_batches_of_the_same_call_are_found() -> None:
    log = LogFolder().open()
    results = log.append(
        [sequenced(0), sequenced(1), sequenced(0), sequenced(5), sequenced(2)],
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    kinds = [
        result.code.name if isinstance(result, BrokerError) else result.is_duplicate
        for result in results
    ]
    assert kinds == [False, False, True, "OUT_OF_ORDER_SEQUENCE_NUMBER", False]
    assert log.end_offset == 3
    assert log.producer_states.entries[5].last_sequence == 2


def test_transaction_and_its_marker_are_appended_in_one_call() -> None:
    log = LogFolder().open()
    data = batch(1, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    results = append(
        log, batch(1), data, marker(producer_id=5, is_commit=False), batch(2), sequenced(1)
    )
    assert [result.base_offset for result in results] == [0, 1, 2, 3, 4]
    assert aborted_transactions(log.segments, 0, 5) == [(5, 1)]
    assert log.producer_states.first_unstable_offset == 1
    log.producer_states.on_high_watermark(5)
    assert log.producer_states.first_unstable_offset is None


def test_result_has_the_append_time_with_log_append_time() -> None:
    log = LogFolder().open()
    sent = batch(1)
    set_log_append_time(sent.view, 777)
    (result,) = append(log, RecordBatch(sent.view))
    assert result.log_append_time_ms == 777
    assert append(log, batch(1))[0].log_append_time_ms == -1


def test_batch_of_a_coordinator_needs_no_sequence() -> None:
    log = LogFolder().open()
    append(log, batch(1, producer_id=5, producer_epoch=3, is_transactional=True))
    append(log, batch(2, producer_id=5, producer_epoch=3, is_transactional=True))
    fenced = batch(3, producer_id=5, producer_epoch=2, is_transactional=True)
    (result,) = log.append([fenced], leader_epoch=0, now_ms=NOW_MS)
    assert error_of(result) is ErrorCode.INVALID_PRODUCER_EPOCH


def replicated(*starts: int, epoch: int = 2, value: bytes = b"value") -> bytes:
    return b"".join(
        bytes(batch(NOW_MS, base_offset=start, leader_epoch=epoch, value=value).view)
        for start in starts
    )


def test_follower_keeps_offsets_gaps_and_epochs() -> None:
    log = LogFolder(config=LogConfig(segment_bytes=200)).open()
    data = replicated(0, 1, 2) + replicated(7, 9, epoch=4)
    assert log.append_as_follower(memoryview(data), now_ms=NOW_MS) == 10
    assert read_all(log) == data
    assert log.leader_epochs.entries == ((2, 0), (4, 7))
    assert bases(log) == [0, 2, 9]
    log.check()


def test_read_within_a_gap_begins_at_the_batch_after_it() -> None:
    log = LogFolder().open()
    log.append_as_follower(memoryview(replicated(0, 7)), now_ms=NOW_MS)
    piece = log.read(3, 1, up_to_offset=8)
    assert piece is not None
    assert piece.read() == replicated(7)
    piece.release()


def test_follower_append_leaves_out_an_incomplete_batch_at_the_end() -> None:
    log = LogFolder().open()
    data = replicated(0, 1, 2)
    assert log.append_as_follower(memoryview(data)[:-1], now_ms=NOW_MS) == 2
    assert log.append_as_follower(memoryview(data)[:5], now_ms=NOW_MS) == 2
    assert log.append_as_follower(memoryview(replicated(2)), now_ms=NOW_MS) == 3


def test_follower_append_refuses_damage_and_offsets_below_the_end() -> None:
    log = LogFolder().open()
    damaged = bytearray(replicated(0, 1))
    damaged[-1] ^= 1
    with pytest.raises(BrokerError) as refusal:
        log.append_as_follower(memoryview(damaged), now_ms=NOW_MS)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    log.append_as_follower(memoryview(replicated(0, 1)), now_ms=NOW_MS)
    with pytest.raises(BrokerError) as refusal:
        log.append_as_follower(memoryview(replicated(1)), now_ms=NOW_MS)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.end_offset == 2
    log.check()


def test_gap_of_more_than_31_bits_begins_a_segment() -> None:
    far = 2**31
    folder = LogFolder(config=LogConfig(index_interval_bytes=0, cleanup_compact=True))
    log = folder.open()
    data = replicated(0, 1, far - 1, far, far + 5, 2 * far + 9)
    log.append_as_follower(memoryview(data), now_ms=NOW_MS)
    assert bases(log) == [0, far, 2 * far + 9]
    log.check()
    assert read_all(log) == data
    log.close(NOW_MS)
    for was_clean in (True, False):
        log = folder.open(was_clean=was_clean)
        log.check()
        assert read_all(log) == data
        log.abandon()


def test_rolling_an_empty_segment_changes_nothing() -> None:
    log = LogFolder().open()
    log.roll(now_ms=NOW_MS)
    assert bases(log) == [0]
    append(log, batch(1))
    log.roll(now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    assert bases(log) == [0, 1]


def test_roll_leaves_the_files_of_apache_kafka() -> None:
    folder = LogFolder(config=LogConfig(index_interval_bytes=100))
    log = folder.open()
    for timestamp_ms in (5_000, 4_000, 9_000, 8_000):
        append(log, batch(timestamp_ms))
    log.roll(now_ms=NOW_MS)
    size = batch(1).size
    zero = FOLDER + "/" + names.file_name(0, "")
    pairs = [(2, 2 * size)]
    assert folder.files.read(zero + ".index") == b"".join(
        offset.to_bytes(4, "big") + position.to_bytes(4, "big") for offset, position in pairs
    )
    times = [(9_000, 2)]
    assert folder.files.read(zero + ".timeindex") == b"".join(
        timestamp.to_bytes(8, "big") + offset.to_bytes(4, "big") for timestamp, offset in times
    )
    assert folder.files.list(FOLDER) == [
        *(names.file_name(0, suffix) for suffix in (".index", ".log", ".timeindex")),
        *(names.file_name(4, suffix) for suffix in (".index", ".log", ".snapshot", ".timeindex")),
        "leader-epoch-checkpoint",
    ]
    assert folder.files.read(FOLDER + "/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_index_entries_of_the_active_segment_are_written_in_portions() -> None:
    folder = LogFolder(config=LogConfig(index_interval_bytes=0))
    log = folder.open()
    for each in range(1_100):
        append(log, batch(each))
    written = folder.files.size(f"{FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}")
    assert 1_099 * 8 - written < 8_192
    assert written >= 4_096
    log.check()


@pytest.mark.parametrize("interval_bytes", [32 << 10, (32 << 10) + 1, 1 << 20, 2**31 - 1])
def test_index_has_an_entry_for_each_32_kib_however_large_its_interval_is(
    interval_bytes: int,
) -> None:
    folder = LogFolder(config=LogConfig(index_interval_bytes=interval_bytes))
    log = folder.open()
    size = batch(1, value=b"v" * 5_000).size
    for timestamp_ms in range(40):
        append(log, batch(timestamp_ms, value=b"v" * 5_000))
    log.roll(now_ms=NOW_MS)
    data = folder.files.read(f"{FOLDER}/{names.file_name(0, names.OFFSET_INDEX)}")
    positions = [int.from_bytes(data[at + 4 : at + 8], "big") for at in range(0, len(data), 8)]
    distances = [after - before for before, after in pairwise([0, *positions, 40 * size])]
    assert max(distances) <= (32 << 10) + 2 * size
    assert len(positions) >= 4


def test_start_of_a_new_leader_epoch_is_noted_even_without_a_batch() -> None:
    folder = LogFolder()
    log = folder.open()
    append(log, batch(1))
    log.head.epochs.assign(3, log.end_offset)
    assert folder.files.read(FOLDER + "/leader-epoch-checkpoint") == b"0\n2\n0 0\n3 1\n"
    assert log.leader_epochs.end_offset_for(0, log.end_offset) == (0, 1)


def test_log_config_has_kafkas_index_sizes() -> None:
    assert replace(LogConfig(), segment_bytes=14).segment_bytes == 14
    assert LogConfig().offset_index_entries_max == 1_310_720
    assert LogConfig().time_index_entries_max == 873_812
