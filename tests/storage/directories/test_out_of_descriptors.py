"""A process that may open no more files: requests are refused for a while, no directory is lost."""

from __future__ import annotations

import errno

import pytest

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.testing.memory_files import UNLIMITED_DESCRIPTORS, MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.directories.deletion import LogDeletion
from odradek.storage.files.descriptors import Descriptors, FileSlice, Handle
from odradek.storage.files.disk_errors import is_out_of_descriptors
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import UNIQUE, Broker, append, retain
from tests.support.logs import read_all

CONFIG = LogConfig(
    segment_bytes=400, retention_ms=2_000, retention_bytes=3_000, file_delete_delay_ms=50
)
SEEDS = 40
STEPS = 150


class Starved:
    """A broker whose descriptors come and go, and what it has acknowledged."""

    def __init__(self, seed: int) -> None:
        self.random = SeededRandomness(seed)
        self.files = MemoryFileSystem(folders=("/a",))
        self.broker = Broker(self.files, ["/a"]).start(lambda _: CONFIG)
        self.refusals = 0
        self.names: dict[str, Log] = {}
        self.deleted = 0

    def step(self, number: int) -> None:
        """One thing that a broker does, with so many descriptors as chance leaves."""
        free = self.random.below(4)
        self.files.descriptors_max = self.files.descriptor_count() + free
        action = self.random.below(8)
        logs = list(self.names.values())
        log = logs[self.random.below(len(logs))] if logs else None
        self.broker.now_ms = number * 100
        upkeep = self.broker.upkeep
        try:
            if action == 0 or log is None:
                self.create(f"t{number % 5}")
            elif action in (1, 2, 3):
                append(log, 1 + self.random.below(5), now_ms=self.broker.now_ms)
            elif action == 4:
                self.broker.perform(upkeep.flush(now_ms=self.broker.now_ms))
                self.broker.flush(log)
            elif action == 5:
                self.broker.perform(upkeep.checkpoint())
            elif action == 6:
                log.advance_high_watermark(log.end_offset)
                retain(upkeep, now_ms=self.broker.now_ms)
                self.broker.perform(upkeep.remove(now_ms=self.broker.now_ms))
            elif self.random.below(4) == 0:
                self.delete(log)
            else:
                read_all(log)
        except BrokerError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            self.refusals += 1
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            self.refusals += 1
        assert not self.broker.manager.offline_directories
        assert not any(log.is_offline for log in self.names.values())

    def create(self, topic: str) -> None:
        self.names[topic] = self.broker.create(topic, config=CONFIG)

    def delete(self, log: Log) -> None:
        self.deleted += 1
        del self.names[log.topic]
        unique = f"{self.deleted:032x}"
        self.broker.delete((log.topic, 0), unique=unique, now_ms=self.broker.now_ms)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_log_goes_offline_and_nothing_is_lost(seed: int) -> None:
    starved = Starved(seed)
    for number in range(STEPS):
        starved.step(number)
    assert starved.refusals
    starved.files.descriptors_max = UNLIMITED_DESCRIPTORS
    broker = starved.broker
    broker.now_ms += 10_000
    for log in starved.names.values():
        append(log, 1, now_ms=broker.now_ms)
        log.check()
        broker.flush(log)
        assert log.flush_state.recovery_point >= log.end_offset - 1
    broker.perform(broker.upkeep.checkpoint())
    broker.perform(broker.upkeep.remove(now_ms=broker.now_ms + 100_000))
    contents = {log.topic: read_all(log) for log in starved.names.values()}
    starved.files.crash(SeededRandomness(seed))
    again = Broker(starved.files, ["/a"]).start(lambda _: CONFIG)
    contents_after = {log.topic: read_all(log) for log in again.manager.all()}
    assert {topic: contents_after[topic] for topic in contents} == contents
    half_made = [content for topic, content in contents_after.items() if topic not in contents]
    assert not any(half_made)
    again.stop()


def test_file_is_closed_to_open_another_when_no_descriptor_is_left() -> None:
    files = MemoryFileSystem(folders=("/a",), descriptors_max=3)
    for number in range(10):
        files.descriptors_max += 1
        files.open(f"/a/{number}", create=True).close()
    files.descriptors_max = 3
    shared = Descriptors(files)
    handles = [Handle(shared, f"/a/{number}") for number in range(10)]
    for handle in handles:
        handle.use()
    assert shared.open_count == 3
    slices = [FileSlice(handle, 0, 0) for handle in handles[:3]]
    with pytest.raises(OSError, match="Too many open files") as refused:
        handles[5].use()
    assert refused.value.errno == errno.EMFILE
    slices[0].release()
    handles[5].use()
    assert handles[1].file is not None


def test_checkpoint_that_could_not_be_written_when_a_log_was_made_is_written_later() -> None:
    files = MemoryFileSystem(folders=("/a",))
    broker = Broker(files, ["/a"]).start()
    log = broker.create("t")
    append(log, 3)
    broker.flush(log)
    broker.perform(broker.upkeep.checkpoint())
    deletion = LogDeletion(broker.manager, unique=UNIQUE, now_ms=0)
    deletion.remove(("t", 0))
    files.descriptors_max = files.descriptor_count()
    broker.perform(deletion.sync(lambda: None))
    assert deletion.failed == {}
    with pytest.raises(BrokerError):
        broker.create("t")
    files.descriptors_max = UNLIMITED_DESCRIPTORS
    log = broker.create("t")
    append(log, 2)
    broker.flush(log)
    broker.perform(broker.upkeep.checkpoint())
    assert b"t 0 1" in files.read("/a/recovery-point-offset-checkpoint")
