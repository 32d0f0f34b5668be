"""Retention, flushes, checkpoints and removals, and what happens when their jobs fail."""

from __future__ import annotations

import errno
from collections.abc import Generator

import pytest

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.directories.directory_usage import DirectoryUsage, LogUsage, usage_of
from odradek.storage.directories.disk_jobs import WriteCheckpoint
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import UNIQUE, Broker, append, retain
from tests.support.logs import truncate_log_fully

RECOVERY_POINTS = "/a/recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "/a/replication-offset-checkpoint"
LOG_STARTS = "/a/log-start-offset-checkpoint"

SMALL_SEGMENTS = LogConfig(segment_bytes=300, retention_ms=1_000, file_delete_delay_ms=50)


def memory() -> MemoryFileSystem:
    return MemoryFileSystem(folders=("/a", "/b"))


def one_directory() -> tuple[MemoryFileSystem, Broker]:
    files = memory()
    return files, Broker(files, ["/a"]).start()


# Retention.


def retain_replicated(broker: Broker) -> list[str]:
    """A round when everything is replicated."""
    for log in broker.manager.all():
        log.advance_high_watermark(log.end_offset)
    return retain(broker.upkeep, now_ms=5_000)


def test_old_segments_are_renamed_and_removed_later() -> None:
    files, broker = one_directory()
    log = broker.create("orders", config=SMALL_SEGMENTS)
    append(log, 20, now_ms=1_000)
    append(log, 1, now_ms=9_000)
    before = len(log.segments)
    assert retain_replicated(broker) == []
    assert len(log.segments) < before
    aside = [name for name in files.list("/a/orders-0") if name.endswith(".deleted")]
    assert aside
    assert broker.upkeep.remove(now_ms=5_049) == []
    broker.perform(broker.upkeep.remove(now_ms=5_050))
    assert not [name for name in files.list("/a/orders-0") if name.endswith(".deleted")]


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    _, broker = one_directory()
    log = broker.create("orders", config=SMALL_SEGMENTS)
    append(log, 20, now_ms=1_000)
    retain(broker.upkeep, now_ms=1_000_000)
    assert log.log_start_offset == 0


def test_renamed_files_in_a_folder_that_was_deleted_are_no_failure() -> None:
    _, broker = one_directory()
    log = broker.create("orders", config=SMALL_SEGMENTS)
    append(log, 20, now_ms=1_000)
    retain_replicated(broker)
    broker.delete(("orders", 0), now_ms=5_000)
    broker.perform(broker.upkeep.remove(now_ms=10**9))
    assert broker.manager.offline_directories == ()


def test_failing_disk_in_retention_takes_its_directory_offline() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    for n in range(2):
        append(broker.create("orders", n, config=SMALL_SEGMENTS), 20, now_ms=1_000)
    files.fail_operation(1, OSError(errno.EIO, "the disk is broken"))
    retain_replicated(broker)
    assert broker.manager.offline_directories == ("/a",)
    assert [log.partition for log in broker.manager.all()] == [1]
    assert broker.manager.all()[0].log_start_offset > 0


# Flushes.


def test_flush_moves_the_recovery_point_only_when_it_is_done() -> None:
    files, broker = one_directory()
    log = broker.create("orders")
    append(log, 5)
    job = broker.upkeep.flush_log(log, now_ms=0)
    assert job is not None
    assert broker.upkeep.flush_log(log, now_ms=0) is None, "one flush of a log at a time"
    assert log.flush_state.recovery_point == 0
    job.run(files)
    append(log, 2)
    broker.upkeep.on_finished(job)
    assert 0 < log.flush_state.recovery_point <= 5
    files.crash(SeededRandomness(7))
    (again,) = Broker(files, ["/a"]).start().manager.all()
    assert again.end_offset >= 5


def test_flushes_are_due_by_messages_by_time_and_by_a_closed_segment() -> None:
    _, broker = one_directory()
    by_messages = broker.create("a", config=LogConfig(flush_messages=3))
    by_time = broker.create("b", config=LogConfig(flush_ms=100))
    by_roll = broker.create("c", config=LogConfig(segment_bytes=300))
    never = broker.create("d")
    for log in broker.manager.all():
        append(log, 2)
    assert broker.upkeep.flush(now_ms=99) == []
    append(by_messages)
    append(by_roll, 8)
    append(never, 50)
    due = broker.upkeep.flush(now_ms=99)
    assert [job.log for job in due] == [by_messages, by_roll]
    assert [job.log for job in broker.upkeep.flush(now_ms=100)] == [by_time]
    broker.perform(due)
    assert broker.upkeep.flush(now_ms=101) == []


def test_failed_sync_takes_the_directory_offline_and_is_not_retried() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    lost, kept = broker.create("orders", 0), broker.create("orders", 1)
    append(lost, 3)
    append(kept, 3)
    job = broker.upkeep.flush_log(lost, now_ms=0)
    assert job is not None
    files.fail_operation(2, OSError(errno.EIO, "the disk is broken"))
    broker.perform([job])
    assert lost.is_offline
    assert lost.flush_state.recovery_point == 0
    assert broker.manager.all() == [kept]
    assert broker.upkeep.flush_log(lost, now_ms=0) is None
    operations = files.operations
    broker.upkeep.flush(now_ms=10**9)
    assert files.operations == operations


def test_flush_of_a_log_deleted_meanwhile_is_no_failure() -> None:
    files, broker = one_directory()
    log = broker.create("orders")
    append(log)
    job = broker.upkeep.flush_log(log, now_ms=0)
    assert job is not None
    broker.delete(("orders", 0))
    job.run(files)
    assert broker.upkeep.on_finished(job) == []
    assert broker.manager.offline_directories == ()


def test_flush_overtaken_by_a_truncation_proves_nothing() -> None:
    files, broker = one_directory()
    log = broker.create("orders", config=LogConfig(segment_bytes=300))
    append(log, 12)
    job = broker.upkeep.flush_log(log, now_ms=0)
    assert job is not None
    job.run(files)
    broker.truncate({("orders", 0): 1})
    append(log, 12, leader_epoch=1)
    broker.upkeep.on_finished(job)
    assert log.flush_state.recovery_point <= 1


def test_log_that_went_offline_by_itself_takes_its_directory_along() -> None:
    broker = Broker(memory(), ["/a", "/b"]).start()
    log = broker.create("orders")
    log.abandon()
    broker.upkeep.flush(now_ms=0)
    assert broker.manager.offline_directories == ("/a",)


# Checkpoints.


def test_checkpoint_is_written_once_and_then_only_when_it_changes() -> None:
    files, broker = one_directory()
    log = broker.create("orders")
    append(log, 4)
    broker.flush(log)
    jobs = broker.upkeep.checkpoint()
    assert len(jobs) == 2
    broker.perform(jobs)
    assert files.read(RECOVERY_POINTS) == b"0\n1\norders 0 3\n"
    assert files.read(LOG_STARTS) == b"0\n0\n"
    assert broker.upkeep.checkpoint() == []
    assert broker.upkeep.checkpoint_high_watermarks() != []


def test_checkpoint_asked_for_while_it_is_written_follows_at_once() -> None:
    files, broker = one_directory()
    log = broker.create("orders")
    first = broker.upkeep.checkpoint()
    append(log, 4)
    broker.flush(log)
    assert broker.upkeep.checkpoint() == []
    broker.perform(first)
    assert files.read(RECOVERY_POINTS) == b"0\n1\norders 0 3\n"


def test_only_logs_that_start_above_their_first_base_offset_are_in_the_log_start_checkpoint() -> (
    None
):
    files, broker = one_directory()
    for topic in ("orders", "payments"):
        append(broker.create(topic), 5)
    log = broker.manager.get("orders", 0)
    assert log is not None
    broker.flush(log)
    log.advance_log_start(3)
    broker.perform(broker.upkeep.checkpoint())
    assert files.read(LOG_STARTS) == b"0\n1\norders 0 3\n"
    files.crash(SeededRandomness(2))
    restarted = Broker(files, ["/a"]).start().manager.get("orders", 0)
    assert restarted is not None
    assert restarted.log_start_offset == 3


def test_checkpoint_that_cannot_be_written_takes_the_directory_offline() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    jobs = broker.upkeep.checkpoint()
    files.fail_operation(1, OSError(errno.EIO, "broken"))
    broker.perform(jobs)
    assert broker.manager.offline_directories == ("/a",)
    assert [job.directory for job in broker.upkeep.checkpoint()] == []


def test_failed_job_of_the_last_directory_raises_no_directory_left() -> None:
    files, broker = one_directory()
    (job, _) = broker.upkeep.checkpoint()
    assert isinstance(job, WriteCheckpoint)
    with pytest.raises(NoDirectoryLeft):
        broker.upkeep.on_failed(job, OSError(errno.EIO, "the disk is broken"))
    assert broker.upkeep.on_finished(job) == []
    assert files.list("/a")


# Truncation.


def test_recovery_point_that_goes_back_is_on_disk_before_anything_is_appended() -> None:
    files, broker = one_directory()
    log = broker.create("orders")
    append(log, 9)
    broker.flush(log)
    broker.perform(broker.upkeep.checkpoint())
    broker.truncate({("orders", 0): 4, ("unknown", 0): 1})
    assert files.read(RECOVERY_POINTS) == b"0\n1\norders 0 3\n"
    operations = files.operations
    append(log, 1)
    broker.truncate({("orders", 0): 4})
    assert log.end_offset == 4
    assert log.flush_state.recovery_point == 3
    assert files.operations < operations + 12, "an unmoved recovery point is not written again"


def test_truncated_segments_are_removed_by_a_job() -> None:
    files, broker = one_directory()
    log = broker.create("orders", config=SMALL_SEGMENTS)
    append(log, 20)
    broker.truncate({("orders", 0): 3})
    broker.truncate_fully("orders", 0, 50)
    assert [name for name in files.list("/a/orders-0") if name.endswith(".deleted")]
    broker.perform(broker.upkeep.remove(now_ms=8))
    assert not [name for name in files.list("/a/orders-0") if name.endswith(".deleted")]
    append(log, 2)
    log.check()


def test_log_truncated_to_nothing_is_empty_after_a_crash() -> None:
    files, broker = one_directory()
    log = broker.create("orders")
    append(log, 9)
    broker.flush(log)
    broker.perform(broker.upkeep.checkpoint())
    broker.truncate_fully("orders", 0, 100)
    append(log, 2)
    broker.flush(log)
    files.crash(SeededRandomness(5))
    (again,) = Broker(files, ["/a"]).start().manager.all()
    assert (again.log_start_offset, again.end_offset) == (100, 102)


# Producers and usage.


def test_idle_producers_are_forgotten() -> None:
    _, broker = one_directory()
    broker.create("orders")
    assert broker.upkeep.expire_producers(now_ms=10**12) == 0


def result_of(steps: Generator[None, None, list[DirectoryUsage]]) -> list[DirectoryUsage]:
    results: list[list[DirectoryUsage]] = []

    def run() -> Generator[None, None, None]:
        results.append((yield from steps))

    assert list(run())
    return results[0]


def test_usage_has_sizes_lags_and_offline_directories() -> None:
    files = MemoryFileSystem(folders=("/a", "/b"), capacity_bytes=1_000_000)
    broker = Broker(files, ["/a", "/b"]).start()
    log = broker.create("orders")
    append(log, 3)
    broker.manager.take_offline(broker.manager.directories["/b"], OSError("gone"))

    def usage(*, is_wanted: bool = True) -> list[DirectoryUsage]:
        return result_of(usage_of(broker.manager, files, is_wanted=lambda _: is_wanted))

    here, gone = usage()
    assert here.path == "/a"
    assert here.total_bytes == 1_000_000
    assert 0 < here.usable_bytes < 1_000_000
    assert here.logs == (LogUsage("orders", 0, log.segments.size_bytes(), 0, False),)
    assert gone == DirectoryUsage("/b", False, -1, -1, ())
    assert usage(is_wanted=False)[0].logs == ()
    truncate_log_fully(log, 5, log_start_offset=7)
    assert usage()[0].logs[0].offset_lag == 2


def test_lag_of_a_copy_is_measured_against_its_log() -> None:
    files = memory()
    broker = Broker(files, ["/a", "/b"]).start()
    append(broker.create("orders", 0), 5)
    append(broker.create("orders", 1), 2)
    broker.stop()
    files.rename("/b/orders-1", f"/b/orders-0.{UNIQUE}-future")
    again = Broker(files, ["/a", "/b"]).start()
    _, there = result_of(usage_of(again.manager, files, is_wanted=lambda _: True))
    assert [(log.is_future, log.offset_lag) for log in there.logs] == [(True, 3)]
