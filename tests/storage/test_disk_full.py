"""A full disk is no broken one: what is there goes on, and room may come back."""

from __future__ import annotations

from uuid import UUID

import pytest

from protocol.errors import BrokerError, ErrorCode
from runtime.memory_files import MemoryFileSystem
from storage.descriptors import Descriptors
from storage.log_config import LogConfig
from storage.manager import LogManager
from storage.upkeep import Upkeep

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


def test_a_log_that_finds_no_room_is_refused_and_made_once_there_is_some() -> None:
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


def test_a_checkpoint_that_finds_no_room_is_written_by_a_later_round() -> None:
    files, manager = build()
    create(manager, "first")
    upkeep = Upkeep(manager)
    files.capacity_bytes = 0
    for job in upkeep.checkpoint_high_watermarks({("first", 0): 0}):
        with pytest.raises(OSError, match="No space") as failure:
            job.run(files)
        upkeep.on_failed(job, failure.value)
    assert not manager.offline_directories
    files.capacity_bytes = 1 << 20
    jobs = upkeep.checkpoint_high_watermarks({("first", 0): 0})
    assert jobs
    for job in jobs:
        job.run(files)
        upkeep.on_finished(job)
    assert b"first 0 0" in files.read(f"{FOLDER}/replication-offset-checkpoint")
