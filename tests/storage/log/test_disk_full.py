"""A full disk is not a failed one: logs stay online and are written when there is space again."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from odradek.broker.node.disk_reserve import FREE_MIN_BYTES, RESERVE_BYTES, STEP_BYTES, DiskReserve
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.events import StorageEvent
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, LogFolder, append, batch, flush, read_all

FOLDER = "/data"
TOPIC_ID = UUID(int=7)


def build() -> tuple[MemoryFileSystem, LogManager]:
    files = MemoryFileSystem(folders=[FOLDER])
    manager = LogManager(files, [FOLDER], Descriptors(files), file_delete_delay_ms=1_000)
    manager.open_directories()
    manager.claim(broker_id=0, cluster_id="c" * 22, date="today")
    manager.load(lambda topic: LogConfig(), now_ms=0)
    return files, manager


def create(manager: LogManager, topic: str) -> None:
    manager.create(topic, 0, LogConfig(), topic_id=TOPIC_ID, is_new=True, now_ms=0)


def test_log_is_not_created_on_a_full_disk_and_is_created_when_there_is_space() -> None:
    files, manager = build()
    create(manager, "first")
    files.capacity_bytes = 0
    with pytest.raises(BrokerError) as refusal:
        create(manager, "second")
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not manager.offline_directories
    assert manager.get("first", 0) is not None
    assert f"{FOLDER}/second-0" not in files.list(FOLDER)
    files.capacity_bytes = 1 << 20
    create(manager, "second")
    assert manager.get("second", 0) is not None


@pytest.mark.parametrize("operation", range(1, 12))
def test_log_is_created_in_the_other_directory_when_the_first_choice_is_full(
    operation: int,
) -> None:
    files = MemoryFileSystem(folders=["/a", "/b"])
    manager = LogManager(files, ["/a", "/b"], Descriptors(files), file_delete_delay_ms=1_000)
    manager.open_directories()
    manager.claim(broker_id=0, cluster_id="c" * 22, date="today")
    manager.load(lambda topic: LogConfig(), now_ms=0)
    files.fail_operation(operation, OSError(errno.ENOSPC, "refused"))
    create(manager, "first")
    assert not manager.offline_directories
    log = manager.get("first", 0)
    assert log is not None
    folders = [path for path in ("/a/first-0", "/b/first-0") if files.exists(path)]
    assert folders == [log.directory]


def test_checkpoint_refused_by_a_full_disk_is_written_by_a_later_round() -> None:
    files, manager = build()
    create(manager, "first")
    upkeep = Upkeep(manager)
    events: list[StorageEvent] = []
    manager.descriptors.report = events.append
    files.capacity_bytes = 0
    for job in upkeep.checkpoint_high_watermarks():
        with pytest.raises(OSError, match="No space") as failure:
            job.run(files)
        upkeep.on_failed(job, failure.value)
    assert not manager.offline_directories
    assert [event.place for event in events] == [f"{FOLDER}/replication-offset-checkpoint"]
    files.capacity_bytes = 1 << 20
    jobs = upkeep.checkpoint_high_watermarks()
    assert jobs
    for job in jobs:
        job.run(files)
        upkeep.on_finished(job)
    assert b"first 0 0" in files.read(f"{FOLDER}/replication-offset-checkpoint")


@pytest.mark.parametrize("free_bytes", [0, 1, 100, 900])
@pytest.mark.parametrize("damage", ["none", "indexes", "snapshots", "epochs", "all"])
@pytest.mark.parametrize("recovery_point", [0, 150])
@pytest.mark.parametrize("is_written_to", [True, False])
def test_log_is_recovered_and_read_on_a_full_disk_and_written_when_there_is_space(
    damage: str, free_bytes: int, recovery_point: int, is_written_to: bool
) -> None:
    config = LogConfig(
        segment_bytes=20_000, index_interval_bytes=200, producer_id_expiration_ms=1 << 60
    )
    folder = LogFolder(config=config)
    log = folder.open()
    for number in range(200):
        new_batch = batch(
            NOW_MS + number, value=b"v" * 300, producer_id=5, producer_epoch=0, base_sequence=number
        )
        append(log, new_batch, leader_epoch=number // 60)
    flush(log)
    expected = read_all(log)
    log.abandon()
    for name in folder.files.list("/data/orders-0"):
        kind = {"index": "indexes", "snapshot": "snapshots"}.get(
            name.rpartition(".")[2].removeprefix("time"), "epochs" if "epoch" in name else ""
        )
        # Nothing checks the indexes of segments below the recovery point.
        is_checked = not name[0].isdigit() or int(name[:20]) + 60 > recovery_point
        if kind and is_checked and damage in (kind, "all"):
            file = folder.files.open(f"/data/orders-0/{name}")
            file.truncate(max(file.size() - 24, 0))  # whole entries
            file.close()
    folder.files.capacity_bytes = folder.files.used_bytes() + free_bytes
    log = folder.open(recovery_point=recovery_point)
    log.check()
    assert log.end_offset == 200
    for offset in (0, 57, 120, 199):
        assert read_all(log, offset).endswith(expected[-370:])
    folder.files.capacity_bytes = folder.files.used_bytes() + min(free_bytes, 100)
    for _ in range(3):
        (result,) = log.append([batch(value=b"w" * 6_000)], leader_epoch=4, now_ms=NOW_MS)
        assert isinstance(result, BrokerError)
        assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.is_offline
    folder.files.capacity_bytes = 1 << 30
    if is_written_to:
        append(log, batch(value=b"w" * 6_000), leader_epoch=4)
    log.close(NOW_MS)
    log = folder.open(was_clean=True)
    log.check()
    assert read_all(log)[: len(expected)] == expected
    epochs = [entry.epoch for entry in log.leader_epochs.entries]
    assert epochs == [0, 1, 2, 3, 4][: 4 + is_written_to]
    assert log.max_timestamp() is not None


def test_reserve_is_made_where_there_is_plenty_and_released_in_steps() -> None:
    files = MemoryFileSystem(folders=[FOLDER], capacity_bytes=FREE_MIN_BYTES - 1)
    reserve = DiskReserve(files, FOLDER)
    reserve.restore()
    assert files.list(FOLDER) == []
    assert not reserve.release_step()
    files.capacity_bytes = FREE_MIN_BYTES
    reserve.restore()
    reserve.restore()
    assert files.used_bytes() == RESERVE_BYTES
    for step in range(1, RESERVE_BYTES // STEP_BYTES + 1):
        assert reserve.release_step()
        assert files.used_bytes() == RESERVE_BYTES - step * STEP_BYTES
    assert not reserve.release_step()
    files.capacity_bytes = RESERVE_BYTES
    reserve.restore()
    assert files.used_bytes() == 0
    files.capacity_bytes = RESERVE_BYTES + FREE_MIN_BYTES
    reserve.restore()
    assert reserve.release_step()
    reserve.restore()
    assert files.used_bytes() == RESERVE_BYTES
