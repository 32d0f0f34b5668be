"""Replicas are moved between log directories while they are written to; nothing is lost."""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from odradek.broker.replication.follower.log_directory_moves import LogDirectoryMoves, MovesContext
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.timers import TimingWheel
from odradek.storage.files.names import LOG
from odradek.storage.log.head import Appended
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, batch, read_all
from tests.support.replicas import TOPIC_ID, Replicas

CONFIG = LogConfig(segment_bytes=1_000)
FOLDERS = ("/a", "/b")
NONE = ErrorCode.NONE


class PowerCut(BaseException):
    """Nothing that runs may catch it."""

    errno = errno.EIO
    strerror = "the power is cut"


class Moving:
    """A broker with two directories, and its moves; work runs when the test says so."""

    def __init__(self, files: MemoryFileSystem | None = None, rate: int = 1 << 40) -> None:
        self.replicas = Replicas(config=CONFIG, folders=FOLDERS, files=files)
        self.deferred: deque[Callable[[], None]] = deque()
        self.wheel = TimingWheel(self.replicas.clock.monotonic_ms())
        self.rate = rate
        self.moved: list[Partition] = []
        self.failures = 0
        stored = self.replicas.stored
        self.moves = LogDirectoryMoves(
            MovesContext(
                logs=stored.manager,
                upkeep=stored.upkeep,
                partitions=self.replicas.partitions,
                purgatory=self.replicas.purgatory,
                clock=self.replicas.clock,
                rng=SeededRandomness(3),
                wheel=self.wheel,
                defer=self.deferred.append,
                rate=lambda: self.rate,
                run_jobs=stored.perform,
                on_moved=self.moved.append,
                on_storage_failure=self._on_failure,
                on_fatal=self.replicas.fatal.append,
            )
        )
        self.replicas.observers.append(self.moves)

    def _on_failure(self) -> None:
        self.failures += 1
        self.moves.drop_offline()

    def end(self, *, is_clean: bool) -> None:
        """Stop in order, or die."""
        stored = self.replicas.stored
        if is_clean:
            stored.stop()
        for directory in stored.manager.directories.values():
            directory.release()

    def lead(self, count: int) -> Partition:
        partition = self.replicas.lead()
        write(partition, count)
        return partition

    def step(self) -> bool:
        """One step, or the time until the next one; False when nothing is left."""
        return self.replicas.step(self.deferred, self.wheel)

    def finish(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        pytest.fail("the moves do not end")

    def other(self, partition: Partition) -> str:
        return "/b" if partition.log.directory.startswith("/a/") else "/a"


def write(partition: Partition, count: int) -> None:
    for number in range(count):
        new_batch = batch(
            NOW_MS, producer_id=7, producer_epoch=0, base_sequence=_sequence(partition)
        )
        (result,) = partition.append([new_batch], NOW_MS + number)
        assert not isinstance(result, Exception), result


def _sequence(partition: Partition) -> int:
    entry = partition.log.producer_states.entries.get(7)
    return 0 if entry is None else entry.last_sequence + 1


def test_moved_replica_has_the_same_records_offsets_epochs_and_producers() -> None:
    moving = Moving()
    partition = moving.lead(40)
    former = partition.log
    former.advance_log_start(3)
    before = (read_all(former), former.leader_epochs.entries, former.producer_states.entries)
    target = moving.other(partition)
    assert moving.moves.move("orders", 0, target) is NONE
    moving.finish()
    log = partition.log
    assert log is not former
    assert log.directory == f"{target}/orders-0"
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (3, 40, 40)
    assert read_all(log) == before[0]
    assert log.leader_epochs.entries == before[1]
    assert log.producer_states.entries == before[2]
    assert moving.moved == [partition]
    write(partition, 3)
    log.check()
    moving.replicas.restart(is_clean=True)
    again = moving.replicas.stored.manager.get("orders", 0)
    assert again is not None
    assert (again.directory, again.end_offset) == (f"{target}/orders-0", 43)


def test_after_a_move_each_of_the_last_five_batches_is_recognised_when_sent_again() -> None:
    moving = Moving()
    partition = moving.lead(7)
    assert moving.moves.move("orders", 0, moving.other(partition)) is NONE
    moving.finish()
    for offset in range(2, 7):
        new_batch = batch(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=offset)
        (result,) = partition.append([new_batch], NOW_MS)
        assert isinstance(result, Appended), result
        assert result.base_offset == offset
    assert partition.log.end_offset == 7


def test_records_written_during_the_move_are_moved_too() -> None:
    moving = Moving()
    partition = moving.lead(5)
    moving.moves.move("orders", 0, moving.other(partition))
    for _ in range(6):
        moving.step()
        write(partition, 2)
    moving.finish()
    assert len(moving.moved) == 1
    assert partition.log.end_offset == partition.high_watermark == 17
    partition.log.check()


def test_replica_that_is_truncated_during_the_move_is_moved_as_it_is_then() -> None:
    moving = Moving()
    partition = moving.replicas.follow()
    for offset in range(10):
        new_batch = batch(NOW_MS, base_offset=offset, leader_epoch=1)
        partition.log.append_as_follower(new_batch.view, now_ms=0)
    moving.moves.move("orders", 0, moving.other(partition))
    moving.step()
    moving.replicas.stored.truncate({("orders", 0): 4})
    for offset in range(4, 12):
        new_batch = batch(NOW_MS, base_offset=offset, leader_epoch=2, value=b"other")
        partition.log.append_as_follower(new_batch.view, now_ms=0)
    expected = read_all(partition.log)
    moving.finish()
    assert len(moving.moved) == 1
    assert read_all(partition.log) == expected
    assert partition.log.leader_epochs.entries == ((1, 0), (2, 4))


def test_log_that_starts_inside_a_batch_is_moved_with_the_whole_batch() -> None:
    moving = Moving()
    partition = moving.replicas.lead()
    for _ in range(3):
        partition.append([batch(*([NOW_MS] * 10))], NOW_MS)
    partition.log.advance_log_start(14)
    partition.log.roll(now_ms=0)
    delete_old_segments(partition.log, now_ms=0)
    moving.moves.move("orders", 0, moving.other(partition))
    moving.finish()
    log = partition.log
    assert len(moving.moved) == 1
    assert (log.log_start_offset, log.end_offset) == (14, 30)
    assert len(read_all(log, 14)) > 0
    log.check()


def test_rate_bounds_the_bytes_in_a_second() -> None:
    moving = Moving(rate=1_000)
    partition = moving.lead(40)
    size = partition.log.segments.size_bytes()
    began_ms = moving.replicas.clock.monotonic_ms()
    moving.moves.move("orders", 0, moving.other(partition))
    moving.finish()
    assert moving.replicas.clock.monotonic_ms() - began_ms >= size * 1_000 // 1_000 - 1_000


def test_errors_of_a_move() -> None:
    moving = Moving()
    partition = moving.lead(1)
    other = moving.other(partition)
    move = moving.moves.move
    assert move("x" * 240, 0, other) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert move("orders", 0, "/c") is ErrorCode.LOG_DIR_NOT_FOUND
    assert move("returns", 0, "/b") is ErrorCode.REPLICA_NOT_AVAILABLE
    assert moving.replicas.lead("returns").log.directory == "/b/returns-0"
    assert move("orders", 0, partition.log.directory.rpartition("/")[0]) is NONE
    assert not moving.step()


def test_move_to_the_current_directory_deletes_the_copy() -> None:
    moving = Moving()
    partition = moving.lead(30)
    home = partition.log.directory.rpartition("/")[0]
    moving.moves.move("orders", 0, moving.other(partition))
    moving.step()
    assert moving.replicas.stored.manager.future("orders", 0) is not None
    assert moving.moves.move("orders", 0, home) is NONE
    moving.finish()
    assert moving.replicas.stored.manager.future("orders", 0) is None
    assert partition.log.directory == f"{home}/orders-0"
    assert moving.moved == []


def test_deleted_replica_takes_its_copy_with_it() -> None:
    moving = Moving()
    partition = moving.lead(30)
    moving.moves.move("orders", 0, moving.other(partition))
    moving.step()
    moving.replicas.stop(is_deleted=True)
    moving.finish()
    assert moving.replicas.stored.manager.all() == []


def test_failed_target_ends_the_move_and_leaves_the_replica() -> None:
    moving = Moving()
    partition = moving.lead(30)
    moving.moves.move("orders", 0, moving.other(partition))
    manager = moving.replicas.stored.manager
    future = manager.future("orders", 0)
    assert future is not None
    manager.take_offline(manager.directory_of(future), OSError("the disk is broken"))
    moving.finish()
    assert moving.moved == []
    write(partition, 1)


def test_move_goes_on_after_a_restart() -> None:
    moving = Moving()
    partition = moving.lead(30)
    target = moving.other(partition)
    moving.moves.move("orders", 0, target)
    moving.step()
    moving.moves.close()
    moving.replicas.stored.stop()
    again = Moving(moving.replicas.files)
    again.replicas.leader_epoch = moving.replicas.leader_epoch
    partition = again.replicas.lead()
    again.finish()
    assert partition.log.directory == f"{target}/orders-0"
    assert partition.log.end_offset == 30


def life(moving: Moving, done: list[int]) -> None:
    partition = moving.lead(12)
    moving.replicas.stored.flush(partition.log)
    done.append(partition.log.end_offset)
    moving.replicas.checkpoint()
    moving.moves.move("orders", 0, moving.other(partition))
    moving.finish()
    moving.replicas.checkpoint()


def test_power_cut_at_every_operation_of_a_move_loses_nothing() -> None:
    counted = Moving()
    life(counted, [])
    for number in range(1, counted.replicas.files.operations + 1):
        files = MemoryFileSystem(folders=FOLDERS)
        moving = Moving(files)
        done: list[int] = []
        files.fail_operation(number, cast(OSError, PowerCut()))
        with contextlib.suppress(PowerCut):
            life(moving, done)
        files.crash(SeededRandomness(number))
        again = Moving(files)
        again.replicas.leader_epoch = 5
        partition = again.replicas.lead()
        assert partition.log.end_offset >= (done[0] if done else 0), number
        stored = read_all(partition.log)
        again.finish()
        partition.log.check()
        assert read_all(partition.log) == stored, number


@pytest.mark.parametrize("stops", [(), (True,), (True, True), (True, False), (False,)])
@pytest.mark.parametrize("lost", [0, 2])
def test_copy_that_has_lost_a_segment_in_a_power_cut_is_copied_again_from_there(
    stops: tuple[bool, ...], lost: int
) -> None:
    """stops  of the brokers after the power cut that never knew what they lead: in order or not"""
    moving = Moving()
    partition = moving.lead(80)
    moving.replicas.stored.flush(partition.log)
    moving.replicas.checkpoint()
    stored, target = read_all(partition.log), moving.other(partition)
    moving.rate = 4_000
    moving.moves.move("orders", 0, target)
    future = moving.replicas.stored.manager.future("orders", 0)
    assert future is not None
    while len(future.segments) < 5:
        assert moving.step()
    moving.replicas.files.open(future.segments[lost].path(LOG)).truncate(0)
    again = moving
    for is_clean in (False, *stops):
        again.end(is_clean=is_clean)
        again = Moving(moving.replicas.files)
    again.replicas.leader_epoch = moving.replicas.leader_epoch
    partition = again.replicas.lead()
    again.finish()
    assert partition.log.directory == f"{target}/orders-0"
    assert read_all(partition.log) == stored
    again.replicas.restart(is_clean=True)
    moved = again.replicas.stored.manager.get("orders", 0)
    assert moved is not None
    assert read_all(moved) == stored


def test_rate_that_was_raised_ends_the_wait_of_a_batch_that_was_larger_than_the_rate() -> None:
    moving = Moving(rate=1)
    partition = moving.lead(20)
    former = partition.log
    moving.moves.move("orders", 0, moving.other(partition))
    for _ in range(3):
        moving.step()
    assert partition.log is former
    began_ms = moving.replicas.clock.monotonic_ms()
    moving.rate = 1 << 40
    moving.finish()
    assert partition.log is not former
    assert moving.replicas.clock.monotonic_ms() - began_ms <= 2_000


def test_move_of_a_log_that_has_lost_its_last_records_before_an_empty_segment_ends() -> None:
    """After a power cut; the copy ends where the log does, so no offset is given twice."""
    moving = Moving()
    partition = moving.lead(20)
    former = partition.log
    last = former.segments.base_offsets[-1]
    stored, target = read_all(former, up_to_offset=last), moving.other(partition)
    former.roll(now_ms=NOW_MS)
    end_offset = former.end_offset
    moving.replicas.checkpoint()
    moving.end(is_clean=False)
    moving.replicas.files.replace(f"{former.directory}/{last:020d}.log", b"")
    again = Moving(moving.replicas.files)
    again.replicas.leader_epoch = moving.replicas.leader_epoch
    partition = again.replicas.lead(replicas=(1, 2))
    gap = partition.log.segment_gap
    assert gap == (last, end_offset)
    assert again.moves.move("orders", 0, target) is NONE
    again.finish()
    log = partition.log
    assert log.directory == f"{target}/orders-0"
    assert log.end_offset == end_offset
    assert read_all(log) == stored
    assert log.segment_gap == gap
    log.check()
    write(partition, 1)
    assert log.end_offset == end_offset + 1


@pytest.mark.parametrize("is_missing", [True, False])
def test_gap_of_a_copy_that_its_log_has_too_is_not_copied_again(is_missing: bool) -> None:
    """is_missing  the copy has lost what the log has"""
    moving = Moving()
    partition = moving.lead(80)
    moving.replicas.stored.flush(partition.log)
    moving.replicas.checkpoint()
    target, log = moving.other(partition), partition.log
    moving.rate = 4_000
    moving.moves.move("orders", 0, target)
    future = moving.replicas.stored.manager.future("orders", 0)
    assert future is not None
    while len(future.segments) < 5:
        assert moving.step()
    for damaged_log in (future,) if is_missing else (future, log):
        moving.replicas.files.open(damaged_log.segments[1].path(LOG)).truncate(0)
    moving.end(is_clean=False)
    again = Moving(moving.replicas.files)
    again.replicas.leader_epoch = moving.replicas.leader_epoch
    partition = again.replicas.lead(replicas=(1, 2))
    future = again.replicas.stored.manager.future("orders", 0)
    assert future is not None
    assert future.segment_gap is not None
    again.finish()
    assert partition.log.directory == f"{target}/orders-0"
    assert bool(future.truncation_count) == is_missing


def moving_with_unreadable(is_copy: bool) -> tuple[Moving, str]:
    """A broker that restarts during a move, with an unreadable partition.metadata; the target."""
    moving = Moving()
    partition = moving.lead(30)
    target = moving.other(partition)
    moving.moves.move("orders", 0, target)
    moving.step()
    future = moving.replicas.stored.manager.future("orders", 0)
    assert future is not None
    damaged = future if is_copy else partition.log
    moving.moves.close()
    moving.end(is_clean=True)
    moving.replicas.files.replace(f"{damaged.directory}/partition.metadata", b"")
    again = Moving(moving.replicas.files)
    again.replicas.leader_epoch = moving.replicas.leader_epoch
    return again, target


def test_copy_whose_topic_id_cannot_be_read_takes_that_of_its_log() -> None:
    moving, target = moving_with_unreadable(is_copy=True)
    partition = moving.replicas.lead()
    moving.finish()
    assert partition.log.directory == f"{target}/orders-0"
    moving.moves.close()
    moving.end(is_clean=True)
    manager = Moving(moving.replicas.files).replicas.stored.manager
    assert manager.topic_id("orders", 0) == TOPIC_ID


def test_unidentified_log_is_kept_aside_with_its_copy() -> None:
    moving, _ = moving_with_unreadable(is_copy=False)
    files = moving.replicas.files
    assert moving.replicas.send_state("orders", 0, 2, (2,), 9, (1, 2)).partition_errors == {}
    moving.finish()
    assert moving.moved == []
    assert moving.replicas.partitions.held("orders", 0).log.end_offset == 0
    for folder in FOLDERS:
        (name,) = [name for name in files.list(folder) if name.startswith("orders-0.")]
        assert name.endswith("-stray")
