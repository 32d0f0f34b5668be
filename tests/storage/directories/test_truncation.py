"""A truncated log takes no append before what the next start must know of it is on disk."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.testing.memory_files import MemoryFile, MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.directories.disk_jobs import DiskJob, FinishTruncation, WriteCheckpoint
from odradek.storage.files import names
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.storage.compaction.cleaning import clean_log, keyed
from tests.support.log_directories import Broker, append
from tests.support.logs import NOW_MS, batch, marker

CONFIG = LogConfig(segment_bytes=400)
END = 10
"""Where the last of three segments begins: a truncation above it removes none."""


def started(*folders: str) -> Broker:
    folders = folders or ("/a",)
    return Broker(MemoryFileSystem(folders=folders), folders).start(lambda _: CONFIG)


def begin(broker: Broker, log: Log, offset: int) -> DiskJob:
    job = broker.upkeep.truncations.truncate_to(log, offset, now_ms=0)
    assert job is not None
    return job


def run(broker: Broker, job: DiskJob) -> Sequence[DiskJob]:
    job.run(broker.files)
    return broker.upkeep.on_finished(job)


def append_error(log: Log) -> ErrorCode:
    (result,) = log.append([batch(NOW_MS)], leader_epoch=9, now_ms=0)
    assert isinstance(result, BrokerError)
    with pytest.raises(BrokerError) as refusal:
        log.append_as_follower(batch(NOW_MS, base_offset=log.end_offset).view, now_ms=0)
    assert refusal.value.code is result.code
    return result.code


def test_appends_are_refused_until_the_checkpoint_is_written() -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    broker.flush(log)
    broker.perform(broker.upkeep.checkpoint())
    done: list[int] = []
    job = begin(broker, log, END)
    broker.upkeep.truncations.when_done(log, lambda: done.append(log.end_offset))
    assert append_error(log) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    checkpoints = run(broker, job)
    assert append_error(log) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert done == []
    broker.perform(checkpoints)
    assert done == [END]
    append(log, leader_epoch=9)
    log.check()


def test_checkpoint_that_was_under_way_does_not_open_the_log() -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    broker.flush(log)
    under_way = broker.upkeep.checkpoint()
    job = begin(broker, log, 4)
    more = run(broker, job)
    assert not [checkpoint for checkpoint in more if checkpoint in under_way]
    for checkpoint in under_way:
        checkpoint.run(broker.files)
    following = [
        again for checkpoint in under_way for again in broker.upkeep.on_finished(checkpoint)
    ]
    assert append_error(log) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.perform([*more, *following])
    append(log, leader_epoch=9)


def test_many_truncations_share_the_writes_of_checkpoints() -> None:
    broker = started()
    logs = [broker.create("orders", index, config=CONFIG) for index in range(100)]
    for log in logs:
        append(log, 6)
    broker.flush(*logs)
    broker.perform(broker.upkeep.checkpoint())
    jobs: list[DiskJob] = [begin(broker, log, 2) for log in logs]
    writes: list[DiskJob] = []
    for job in jobs:
        writes += run(broker, job)
    written = 0
    while writes:
        write = writes.pop(0)
        assert isinstance(write, WriteCheckpoint)
        written += 1
        writes += run(broker, write)
    assert written <= 4
    for log in logs:
        append(log, leader_epoch=9)


def test_full_disk_keeps_the_log_closed_until_the_checkpoint_is_written() -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    broker.flush(log)
    broker.perform(broker.upkeep.checkpoint())
    checkpoints = run(broker, begin(broker, log, 4))
    assert isinstance(broker.files, MemoryFileSystem)
    broker.files.capacity_bytes = 0
    broker.perform(checkpoints)
    assert broker.manager.take_failures() == []
    assert append_error(log) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.files.capacity_bytes = 1 << 40
    broker.perform(broker.upkeep.checkpoint())
    append(log, leader_epoch=9)


def newest_batches(log: Log) -> dict[int, tuple[object, ...]]:
    """Per producer what a snapshot keeps of it: of five batches, the last one."""
    return {
        producer_id: (entry.batches[-1:], entry.current_txn_first_offset, entry.coordinator_epoch)
        for producer_id, entry in log.producer_states.entries.items()
    }


def test_producer_state_is_that_of_a_log_which_never_had_what_was_dropped() -> None:
    broker = started()
    whole, never = broker.create("orders", 0, config=CONFIG), broker.create("orders", 1)
    never.config = replace(CONFIG)
    for number in range(30):
        for log in (whole, never) if number < 17 else (whole,):
            new_batch = batch(
                NOW_MS,
                producer_id=1 + number % 3,
                producer_epoch=0,
                base_sequence=number // 3,
                is_transactional=True,
            )
            log.append([new_batch], leader_epoch=0, now_ms=0)
    for log in (whole, never):
        log.advance_high_watermark(5)
    whole.append([marker(producer_id=1, is_commit=False)], leader_epoch=0, now_ms=0)
    begin(broker, whole, 17)
    assert newest_batches(whole) != newest_batches(never)
    broker.truncate({("orders", 0): 17})
    assert newest_batches(whole) == newest_batches(never)
    assert whole.last_stable_offset == never.last_stable_offset == 0
    whole.producer_states.check()


def without_snapshots(broker: Broker) -> tuple[Log, DiskJob]:
    """A truncated log whose producer state has to be made from all of its segments.

    Every record of its first segments has a later one of its key.
    """
    log = broker.create("orders", config=replace(CONFIG, cleanup_compact=True))
    for number in range(16):
        log.append([keyed((b"%d" % (number % 2), b"v"))], leader_epoch=0, now_ms=0)
    dropped = batch(NOW_MS, producer_id=1, producer_epoch=0, base_sequence=0)
    log.append([dropped], leader_epoch=0, now_ms=0)
    broker.flush(log)
    for name in broker.files.list(log.directory):
        if name.endswith(names.SNAPSHOT):
            broker.files.open(f"{log.directory}/{name}").truncate(1)
    return log, begin(broker, log, 16)


def test_producer_state_is_made_again_when_segments_were_replaced_meanwhile() -> None:
    broker = started()
    log, job = without_snapshots(broker)
    clean_log(broker.files, log)
    again = run(broker, job)
    assert [type(each) for each in again] == [FinishTruncation]
    broker.perform(again)
    assert not broker.manager.take_failures()
    assert not log.is_truncating
    append(log)
    log.check()


def test_damaged_segment_takes_the_directory_offline() -> None:
    broker = started("/a", "/b")
    log, job = without_snapshots(broker)
    broker.files.open(log.segments[0].handle.path).truncate(0)
    assert not run(broker, job)
    (failure,) = broker.manager.take_failures()
    assert failure.partitions == (("orders", 0),)


def test_second_truncation_takes_the_place_of_the_first() -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    first = begin(broker, log, END + 1)
    second = begin(broker, log, END)
    assert run(broker, first) == ()
    assert append_error(log) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.perform([second])
    append(log, leader_epoch=9)
    assert log.end_offset == END + 1


@pytest.mark.parametrize("offset", range(1, 20))
def test_truncation_waits_for_no_disk_and_cuts_after_removals_are_durable(
    offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 20)
    synced: list[str] = []
    unsynced_removals: list[str] = []
    cuts: list[str] = []
    rename, sync_directory = MemoryFileSystem.rename, MemoryFileSystem.sync_directory
    truncate = MemoryFile.truncate

    def note_rename(files: MemoryFileSystem, path: str, new_path: str) -> None:
        rename(files, path, new_path)
        unsynced_removals.append(path)

    def note_sync(files: MemoryFileSystem, path: str) -> None:
        sync_directory(files, path)
        synced.append(path)
        unsynced_removals.clear()

    def note_cut(file: MemoryFile, size: int) -> None:
        truncate(file, size)
        assert not unsynced_removals
        cuts.append("file")

    monkeypatch.setattr(MemoryFileSystem, "rename", note_rename)
    monkeypatch.setattr(MemoryFileSystem, "sync_directory", note_sync)
    monkeypatch.setattr(MemoryFile, "truncate", note_cut)
    ends: list[int] = []
    while log.end_offset > offset:
        job = begin(broker, log, offset)
        assert synced == []
        broker.perform([job])
        synced.clear()
        ends.append(log.end_offset)
    assert ends[-1] == offset
    assert len(ends) == 1 + bool(cuts and ends[0] > offset)
    append(log, leader_epoch=9)
    log.check()


def test_log_that_is_deleted_while_it_is_truncated_calls_nothing_back() -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    done: list[int] = []
    job = begin(broker, log, 8)
    broker.upkeep.truncations.when_done(log, lambda: done.append(1))
    broker.delete(("orders", 0))
    broker.perform([job])
    assert done == []


def test_disk_that_fails_meanwhile_takes_its_directory_offline() -> None:
    broker = started("/a", "/b")
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    done: list[int] = []
    job = begin(broker, log, 3)
    broker.upkeep.truncations.when_done(log, lambda: done.append(1))
    assert isinstance(broker.files, MemoryFileSystem)
    broker.files.fail_operation(1, OSError(errno.EIO, "the disk is broken"))
    broker.perform([job])
    (failure,) = broker.manager.take_failures()
    assert failure.partitions == (("orders", 0),)
    assert done == []


def test_job_without_a_free_descriptor_is_retried() -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    job = begin(broker, log, 3)
    assert isinstance(broker.files, MemoryFileSystem)
    broker.files.fail_operation(1, OSError(errno.EMFILE, "too many open files"))
    broker.perform([job])
    assert append_error(log) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.perform(broker.upkeep.truncations.take_postponed())
    append(log, leader_epoch=9)


@pytest.mark.parametrize("seed", range(8))
def test_power_cut_during_the_job_leaves_a_prefix_of_either_history(seed: int) -> None:
    broker = started()
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    broker.flush(log)
    broker.perform(broker.upkeep.checkpoint())
    checkpoints = run(broker, begin(broker, log, 4))
    for job in checkpoints[: seed % 3]:
        job.run(broker.files)
    assert isinstance(broker.files, MemoryFileSystem)
    broker.files.crash(SeededRandomness(seed))
    again = Broker(broker.files, ["/a"]).start(lambda _: CONFIG)
    loaded_log = again.manager.get("orders", 0)
    assert loaded_log is not None
    loaded_log.check()
    assert loaded_log.end_offset >= 4
