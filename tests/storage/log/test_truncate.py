from __future__ import annotations

import errno

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.files import names
from odradek.storage.log.log import Log
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log_config import LogConfig
from tests.support.logs import (
    FOLDER,
    NOW_MS,
    LogFolder,
    append,
    batch,
    flush,
    read_all,
    truncate_log,
    truncate_log_fully,
)

SIZE = batch(1).size


def filled(folder: LogFolder, count: int, per_segment: int = 4) -> Log:
    folder.config = LogConfig(
        segment_bytes=per_segment * SIZE, index_interval_bytes=SIZE, retention_ms=-1
    )
    log = folder.open()
    for each in range(count):
        append(log, batch(1_000 + each), leader_epoch=each // 5)
    return log


def deleted(log: Log, *, now_ms: int = NOW_MS, high_watermark: int | None = None) -> list[str]:
    end = log.end_offset if high_watermark is None else high_watermark
    log.advance_high_watermark(end)
    removed = delete_old_segments(log, now_ms=now_ms)
    return [path.rpartition("/")[2] for files in removed for path in files.paths]


@pytest.mark.parametrize("was_clean", [True, False])
def test_truncation_to_any_offset_leaves_a_prefix_also_after_a_start(was_clean: bool) -> None:
    whole = filled(LogFolder(), 21)
    everything = read_all(whole)
    for offset in range(21):
        folder = LogFolder()
        log = filled(folder, 21)
        assert truncate_log(log, offset)
        log.check()
        assert log.end_offset == offset
        assert read_all(log) == everything[: offset * SIZE]
        assert log.leader_epochs.entries == tuple(
            entry for entry in whole.leader_epochs.entries if entry.start_offset < offset
        )
        append(log, batch(9_999), leader_epoch=9)
        log.check()
        assert log.max_timestamp() == (offset, 9_999, 9)
        if was_clean:
            log.close(NOW_MS)
        else:
            log.abandon()
        again = folder.open(was_clean=was_clean)
        again.check()
        assert again.end_offset == offset + 1
        assert read_all(again)[: offset * SIZE] == everything[: offset * SIZE]
        assert again.leader_epochs.entries[-1] == (9, offset)


def test_truncation_into_a_batch_drops_the_batch() -> None:
    log = LogFolder().open()
    append(log, batch(1, 2, 3), batch(4, 5, 6))
    assert truncate_log(log, 4)
    assert log.end_offset == 3
    log.check()


def test_truncation_at_or_above_the_end_drops_only_epochs_without_batches() -> None:
    log = LogFolder().open()
    append(log, batch(1))
    log.head.epochs.assign(4, 1)
    assert not truncate_log(log, 1)
    assert log.leader_epochs.entries == ((0, 0),)
    assert not truncate_log(log, 5)


def test_truncation_below_the_first_segment_removes_all_and_starts_there() -> None:
    log = filled(LogFolder(), 21)
    log.advance_log_start(13)
    deleted(log)
    assert log.segments.base_offsets[0] == 12
    assert truncate_log(log, 3)
    assert (log.log_start_offset, log.end_offset, log.segments.size_bytes()) == (3, 3, 0)
    assert log.leader_epochs.entries == ()
    append(log, batch(1), leader_epoch=8)
    log.check()


def test_recovery_point_goes_back_with_a_truncation() -> None:
    log = filled(LogFolder(), 21)
    flush(log)
    truncate_log(log, 10)
    assert log.flush_state.recovery_point < 10
    append(log, batch(1), leader_epoch=9)
    prepared = log.flush_state.prepare(log.end_offset)
    truncate_log(log, 6)
    append(log, *[batch(1) for _ in range(8)], leader_epoch=10)
    prepared.run()
    log.mark_flushed(prepared.end_offset)
    assert log.flush_state.recovery_point <= 6, (
        "what was appended after the truncation is not on disk"
    )


def test_full_truncation_may_start_below_the_log_start_offset() -> None:
    folder = LogFolder()
    log = filled(folder, 21)
    truncate_log_fully(log, 95, log_start_offset=100)
    assert (log.log_start_offset, log.end_offset) == (100, 95)
    data = batch(*range(10), base_offset=95, leader_epoch=7).view
    log.append_as_follower(data, now_ms=NOW_MS)
    log.check()
    assert read_all(log, 100) == bytes(data)
    with pytest.raises(BrokerError):
        log.read(99, 10, up_to_offset=105)
    log.abandon()
    again = folder.open(log_start_offset=100)
    assert (again.log_start_offset, again.end_offset) == (100, 105)


def test_follower_that_diverged_gets_the_leaders_producer_state_back() -> None:
    log = LogFolder(config=LogConfig(segment_bytes=3 * SIZE)).open()
    for sequence in range(10):
        append(log, batch(1, producer_id=5, producer_epoch=0, base_sequence=sequence))
    truncate_log(log, 7)
    assert log.producer_states.entries[5].last_sequence == 6
    truncate_log(log, 0)
    assert log.producer_states.entries == {}


def test_delete_records_moves_the_start_and_then_whole_segments_are_deleted() -> None:
    log = filled(LogFolder(), 21)
    log.config = LogConfig(cleanup_delete=False, cleanup_compact=True)
    log.advance_log_start(7)
    log.advance_log_start(5)
    assert log.log_start_offset == 7
    assert log.leader_epochs.entries[0] == (1, 7)
    assert deleted(log) == [
        names.file_name(0, suffix) + ".deleted" for suffix in (".log", ".index", ".timeindex")
    ]
    assert log.segments.base_offsets[0] == 4
    log.check()
    with pytest.raises(BrokerError) as refusal:
        log.read(6, 10, up_to_offset=21)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segment_is_deleted_at_the_millisecond_of_its_age() -> None:
    log = filled(LogFolder(), 10)
    log.config = LogConfig(retention_ms=500)
    # Segments hold 1000..1003, 1004..1007 and 1008..1009.
    assert deleted(log, now_ms=1_503) == []
    assert len(deleted(log, now_ms=1_504)) == 3
    assert log.log_start_offset == 4
    assert deleted(log, now_ms=1_507) == []
    assert len(deleted(log, now_ms=1_508)) == 4
    assert (log.log_start_offset, log.segments.base_offsets) == (8, [8])
    assert deleted(log, now_ms=1_509) == []
    assert len(deleted(log, now_ms=1_510)) == 4
    assert (log.log_start_offset, log.end_offset, log.segments.base_offsets) == (10, 10, [10])
    assert deleted(log, now_ms=10**13) == []
    append(log, batch(1), leader_epoch=5)
    log.check()


def test_segment_without_timestamps_is_as_old_as_its_file() -> None:
    folder = LogFolder()
    folder.config = LogConfig(segment_bytes=SIZE, retention_ms=500)
    log = folder.open()
    append(log, batch(-1), batch(-1))
    folder.files.set_modified_ms(f"{FOLDER}/{names.file_name(0, names.LOG)}", 7_000)
    folder.files.set_modified_ms(f"{FOLDER}/{names.file_name(1, names.LOG)}", 8_000)
    assert deleted(log, now_ms=7_500) == []
    assert len(deleted(log, now_ms=7_501)) == 3


def test_size_deletes_the_oldest_as_long_as_enough_is_left() -> None:
    log = filled(LogFolder(), 10)
    log.config = LogConfig(retention_bytes=6 * SIZE + 1)
    assert deleted(log, now_ms=0, high_watermark=9) == []
    log.config = LogConfig(retention_bytes=6 * SIZE)
    assert len(deleted(log, now_ms=0, high_watermark=9)) == 3
    log.config = LogConfig(retention_bytes=0)
    assert len(deleted(log, now_ms=0, high_watermark=9)) == 4
    assert log.segments.base_offsets == [8]
    assert len(deleted(log, now_ms=0)) == 4
    assert log.segments.base_offsets == [10]


def test_files_of_deleted_segments_are_due_after_their_delay() -> None:
    log = filled(LogFolder(), 10)
    log.config = LogConfig(retention_ms=0, file_delete_delay_ms=60_000)
    log.advance_high_watermark(4)
    (files,) = delete_old_segments(log, now_ms=2_000)
    assert files.remove_at_ms == 62_000
    assert len(files.paths) == 3


def test_start_removes_files_of_deleted_segments() -> None:
    folder = LogFolder()
    log = filled(folder, 10)
    log.config = LogConfig(retention_ms=0)
    deleted(log, high_watermark=8)
    assert any(name.endswith(".deleted") for name in folder.files.list(FOLDER))
    log.abandon()
    log = folder.open()
    assert not any(name.endswith(".deleted") for name in folder.files.list(FOLDER))
    assert log.log_start_offset == 8
    log.check()


def test_failure_at_any_step_of_a_deletion_leaves_a_log_that_works() -> None:
    folder = LogFolder()
    log = filled(folder, 10)
    log.config = LogConfig(retention_ms=0)
    before = folder.files.operations
    deleted(log, high_watermark=8)
    steps = folder.files.operations - before
    assert steps >= 7
    for number in range(1, steps + 1):
        folder = LogFolder()
        log = filled(folder, 10)
        log.config = LogConfig(retention_ms=0)
        log.advance_high_watermark(8)
        folder.files.fail_operation(number, OSError(errno.EIO, "failure"))
        try:
            delete_old_segments(log, now_ms=NOW_MS)
        except OSError:
            delete_old_segments(log, now_ms=NOW_MS)
        assert log.segments.base_offsets == [8], number
        log.check()
        assert len(read_all(log)) == 2 * SIZE
        log.abandon()
        again = folder.open(log_start_offset=8)
        again.check()
        assert again.end_offset == 10


def test_snapshots_are_deleted_with_their_segments() -> None:
    log = filled(LogFolder(), 21)
    assert log.head.snapshots.offsets == [4, 8, 12, 16, 20]
    truncate_log(log, 13)
    assert log.head.snapshots.offsets == [4, 8, 12]
    log.advance_log_start(9)
    deleted(log)
    assert log.head.snapshots.offsets == [8, 12]
