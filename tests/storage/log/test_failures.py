"""A disk that refuses: what was answered stays, what was refused is not there."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch, iterate_batches
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.log.log import Log
from odradek.storage.log.reading import aborted_transactions
from odradek.storage.log_config import LogConfig
from tests.support.logs import (
    NOW_MS,
    LogFolder,
    append,
    batch,
    flush,
    marker,
    read_all,
    truncate_log,
)

CONFIG = LogConfig(segment_bytes=420, index_interval_bytes=100)


def producing() -> list[list[RecordBatch]]:
    """Calls of append; the fifth does not fit into one segment."""
    return [
        [marker(producer_id=6, is_commit=False)],
        [batch(1)],
        [batch(2, 3, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)],
        [batch(4)],
        [batch(each) for each in range(5, 12)],
        [marker(producer_id=5, is_commit=False)],
        [batch(13, value=b"x" * 200)],
        [batch(14)],
    ]


def attempt(log: Log, batches: list[RecordBatch], answered: list[bytes]) -> None:
    """Append once more what was refused the first time."""
    for batch_to_send in batches:
        for _ in range(2):
            (result,) = log.append([batch_to_send], leader_epoch=3, now_ms=NOW_MS)
            if not isinstance(result, BrokerError):
                answered.append(bytes(batch_to_send.view))
                break
            assert result.code is ErrorCode.KAFKA_STORAGE_ERROR


def aborted_in(data: bytes) -> list[tuple[int, int]]:
    """(producer id, first offset) of the aborted transactions, by the batches alone."""
    first_offsets: dict[int, int] = {}
    aborted = []
    for each in iterate_batches(memoryview(data)):
        if each.is_control:
            if (first_offset := first_offsets.pop(each.producer_id, None)) is not None:
                aborted.append((each.producer_id, first_offset))
        elif each.is_transactional:
            first_offsets.setdefault(each.producer_id, each.base_offset)
    return aborted


def check_and_read_all(log: Log) -> bytes:
    log.check()
    data = read_all(log)
    assert aborted_transactions(log.segments, 0, log.end_offset) == aborted_in(data)
    return data


def run_script(folder: LogFolder, log: Log, answered: list[bytes]) -> bool:
    """Append, roll, flush, close; returns whether the close was clean."""
    for number, batches in enumerate(producing()):
        results = log.append(batches, leader_epoch=3, now_ms=NOW_MS)
        refused = []
        for sent, result in zip(batches, results, strict=True):
            if isinstance(result, BrokerError):
                assert result.code is ErrorCode.KAFKA_STORAGE_ERROR, result
                refused.append(sent)
            else:
                answered.append(bytes(sent.view))
        attempt(log, refused, answered)
        if number == 3:
            try:
                log.roll(now_ms=NOW_MS)
            except OSError:
                log.roll(now_ms=NOW_MS)
        if number == 5:
            try:
                flush(log)
            except OSError:
                log.abandon()
                return False
    reads: tuple[Callable[[Log], bytes], ...] = (read_all, check_and_read_all)
    for read in reads:
        try:
            assert read(log) == b"".join(answered)
        except OSError:
            assert read(log) == b"".join(answered), "a refused read changes nothing"
    try:
        log.close(NOW_MS)
    except OSError:
        return False
    return True


def opened(folder: LogFolder, *, was_used: bool, answered: list[bytes]) -> Log:
    """A new log, or one with a transaction under way that was closed cleanly."""
    log = folder.open()
    if was_used:
        for number in range(3):
            begun = batch(
                number, producer_id=6, producer_epoch=0, base_sequence=number, is_transactional=True
            )
            append(log, begun, leader_epoch=3)
            answered.append(bytes(begun.view))
        log.close(NOW_MS)
        log = folder.open(was_clean=True, recovery_point=log.flush_state.recovery_point)
    return log


def steps_of_the_script() -> int:
    folder = LogFolder(config=CONFIG)
    answered: list[bytes] = []
    log = opened(folder, was_used=True, answered=answered)
    before = folder.files.operations
    assert run_script(folder, log, answered)
    return folder.files.operations - before


STEPS = steps_of_the_script()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("with_power_cut", [False, True])
@pytest.mark.parametrize("was_used", [False, True])
def test_no_acknowledged_batch_is_lost_when_any_one_operation_fails(
    code: int, with_power_cut: bool, was_used: bool
) -> None:
    assert STEPS > 40
    for number in range(1, STEPS + 1):
        folder = LogFolder(config=CONFIG)
        answered: list[bytes] = []
        log = opened(folder, was_used=was_used, answered=answered)
        folder.files.fail_operation(number, OSError(code, "refused"))
        was_closed = False
        try:
            was_closed = run_script(folder, log, answered)
        finally:
            folder.files._failures.clear()
        recovery_point = log.flush_state.recovery_point
        if with_power_cut:
            folder.files.crash(SeededRandomness(number))
        again = folder.open(was_clean=was_closed, recovery_point=recovery_point)
        data = check_and_read_all(again)
        whole = b"".join(answered)
        if not with_power_cut or was_closed:
            assert data == whole, number
        else:
            assert whole.startswith(data), number
            assert again.end_offset >= recovery_point
        again.abandon()


def test_log_whose_failed_write_cannot_be_undone_goes_offline() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    append(log, batch(1), batch(2))
    expected = read_all(log)
    folder.files.fail_operation(1, OSError(errno.EIO, "refused"))
    folder.files.fail_operation(2, OSError(errno.EIO, "refused"))
    for _ in range(2):
        (result,) = log.append([batch(3)], leader_epoch=0, now_ms=NOW_MS)
        assert isinstance(result, BrokerError)
        assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.is_offline
    with pytest.raises(BrokerError):
        log.append_as_follower(batch(3, base_offset=2).view, now_ms=NOW_MS)
    assert read_all(log) == expected, "what was there can still be read"
    log.abandon()
    again = folder.open()
    assert read_all(again) == expected


def test_append_on_a_full_disk_is_refused_and_succeeds_when_there_is_space_again() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    answered = [append(log, batch(1))[0].base_offset]
    folder.files.capacity_bytes = folder.files.used_bytes() + 3 * batch(1).size + 20
    refused = 0
    for each in range(2, 12):
        results = log.append([batch(each), batch(each)], leader_epoch=0, now_ms=NOW_MS)
        for result in results:
            if isinstance(result, BrokerError):
                assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
                refused += 1
            else:
                answered.append(result.base_offset)
        log.check()
    assert refused > 10
    assert answered == list(range(len(answered)))
    assert not log.is_offline
    folder.files.capacity_bytes = 1 << 40
    answered += [append(log, batch(each))[0].base_offset for each in range(20)]
    assert answered == list(range(len(answered)))
    log.check()
    log.close(NOW_MS)
    assert folder.open(was_clean=True).end_offset == len(answered)


def test_state_of_a_producer_is_as_before_a_failed_write() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    append(log, batch(1))

    def sequenced(sequence: int) -> RecordBatch:
        return batch(1, producer_id=5, producer_epoch=0, base_sequence=sequence)

    for group in ([0], [1, 2], [3, 4, 5]):
        folder.files.fail_operation(1, OSError(errno.EIO, "refused"))
        before = dict(log.producer_states.entries)
        results = log.append([sequenced(each) for each in group], leader_epoch=0, now_ms=NOW_MS)
        assert all(isinstance(result, BrokerError) for result in results)
        assert log.producer_states.entries == before
        for each in group:
            append(log, sequenced(each))
    assert log.producer_states.entries[5].last_sequence == 5
    log.check()


def append_one(log: Log, replicated: memoryview | None, sent: RecordBatch) -> BrokerError | None:
    """Append what a leader has sent, or else a producer; returns the refusal."""
    if replicated is None:
        (result,) = log.append([sent], leader_epoch=0, now_ms=NOW_MS)
        return result if isinstance(result, BrokerError) else None
    try:
        log.append_as_follower(replicated, leader_epoch=0, now_ms=NOW_MS)
    except BrokerError as error:
        return error
    return None


@pytest.mark.parametrize("was_clean", [False, True])
@pytest.mark.parametrize("is_leader", [False, True])
def test_aborted_transaction_is_known_when_any_one_operation_after_the_start_fails(
    is_leader: bool, was_clean: bool
) -> None:
    """Else readers of committed records would get what was aborted."""
    failures = 0
    for number in range(1, 12):
        folder = LogFolder(config=CONFIG)
        log = folder.open()
        append(
            log, batch(1, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        flush(log)
        recovery_point = log.flush_state.recovery_point
        if was_clean:
            log.close(now_ms=NOW_MS)
        else:
            log.abandon()
        log = folder.open(was_clean=was_clean, recovery_point=recovery_point)
        folder.files.fail_operation(number, OSError(errno.EIO, "refused"))
        ending = marker(producer_id=5, is_commit=False)
        view = bytes(ending.view)
        replicated = memoryview((1).to_bytes(8, "big") + view[8:12] + bytes(4) + view[16:])
        for _ in range(2):
            if refusal := append_one(log, None if is_leader else replicated, ending):
                assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
                failures += 1
            else:
                break
        folder.files._failures.clear()
        assert log.end_offset == 2
        assert aborted_transactions(log.segments, 0, 2) == [(5, 0)], number
        log.check()
    assert failures > 1


def test_duplicate_of_a_batch_whose_write_failed_is_refused_with_it() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    append(log, batch(1))
    again = [batch(1, producer_id=5, producer_epoch=0, base_sequence=0) for _ in range(2)]
    folder.files.fail_operation(1, OSError(errno.EIO, "refused"))
    results = log.append(again, leader_epoch=0, now_ms=NOW_MS)
    assert [isinstance(result, BrokerError) for result in results] == [True, True]
    assert log.end_offset == 1


def test_failed_epoch_file_is_written_by_the_next_flush() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    append(log, batch(1), leader_epoch=1)
    flush(log)
    folder.files.fail_operation(2, OSError(errno.ENOSPC, "refused"))
    append(log, batch(2), leader_epoch=2)
    assert log.head.epochs.is_unwritten
    folder.files.fail_operation(1, OSError(errno.ENOSPC, "refused"))
    before = log.flush_state.recovery_point
    flush(log)
    assert log.flush_state.recovery_point == before, (
        "nothing is promised while the epochs are not written"
    )
    flush(log)
    folder.files.crash(SeededRandomness(1))
    again = folder.open(recovery_point=log.flush_state.recovery_point)
    assert again.leader_epochs.entries == ((1, 0), (2, 1))


def test_failed_truncation_takes_the_log_offline_and_a_start_repairs_it() -> None:
    folder = LogFolder(config=CONFIG)
    log = folder.open()
    append(log, *[batch(each) for each in range(12)])
    before = folder.files.operations
    truncate_log(log, 2)
    steps = folder.files.operations - before
    for number in range(1, steps + 1):
        folder = LogFolder(config=CONFIG)
        log = folder.open()
        append(log, *[batch(each) for each in range(12)])
        whole = read_all(log)
        folder.files.fail_operation(number, OSError(5, "refused"))
        with_failure = False
        try:
            truncate_log(log, 2)
        except OSError:
            with_failure = True
            assert log.is_offline
        folder.files._failures.clear()
        log.abandon()
        again = folder.open()
        again.check()
        assert whole.startswith(read_all(again))
        assert again.end_offset >= 2
        assert with_failure or again.end_offset == 2
