"""A power cut at every operation on the disk, from the first start to the end of a shutdown."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import cast

import pytest

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.storage.checkpoints.clean_shutdown import CLEAN_SHUTDOWN_FILE
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import Broker, append, retain

CONFIG = LogConfig(segment_bytes=400, retention_ms=1_000)


class PowerCut(BaseException):
    """Nothing that runs may catch it."""

    errno = errno.EIO
    strerror = "the power is cut"


class Day:
    """What a broker does from start to stop, and what it has promised meanwhile."""

    def __init__(self, files: MemoryFileSystem) -> None:
        self.files = files
        self.durable: dict[tuple[str, int], int] = {}
        self.deleted: list[tuple[str, int]] = []
        self.is_stopped = False

    def live(self) -> None:
        broker = Broker(self.files, ["/a", "/b"]).start(lambda _: CONFIG)
        for n in range(2):
            append(broker.create("orders", n, config=CONFIG), 12, now_ms=1_000)
        append(broker.create("payments", config=CONFIG), 2)
        self.flush(broker)
        broker.perform(broker.upkeep.checkpoint())
        broker.manager.all()[0].advance_high_watermark(9)
        broker.perform(broker.upkeep.checkpoint_high_watermarks())
        for log in broker.manager.all():
            log.advance_high_watermark(log.end_offset)
        retain(broker.upkeep, now_ms=5_000)
        self.deleted.append(("payments", 0))
        self.durable.pop(("payments", 0))
        broker.delete(("payments", 0), now_ms=5_000)
        append(broker.manager.all()[0], 3, now_ms=5_000)
        self.diverge(broker)
        broker.perform(broker.upkeep.remove(now_ms=10**9))
        broker.perform(broker.upkeep.checkpoint())
        ends = {(log.topic, log.partition): log.end_offset for log in broker.manager.all()}
        broker.stop()
        self.durable.update(ends)
        self.is_stopped = True

    def diverge(self, broker: Broker) -> None:
        """A new leader lets a log drop its end and go on otherwise."""
        log = broker.create("returns", config=CONFIG)
        append(log, 15, now_ms=5_000)
        self.flush(broker)
        broker.perform(broker.upkeep.checkpoint())
        self.durable["returns", 0] = 3
        broker.truncate({("returns", 0): 3})
        append(log, 9, leader_epoch=1, now_ms=5_000)

    def flush(self, broker: Broker) -> None:
        for log in broker.manager.all():
            broker.flush(log)
            self.durable[log.topic, log.partition] = log.end_offset


def after_crash(day: Day) -> None:
    broker = Broker(day.files, ["/a", "/b"]).start(lambda _: CONFIG)
    assert broker.manager.take_failures() == []
    ends = {(log.topic, log.partition): log.end_offset for log in broker.manager.all()}
    for key, end_offset in day.durable.items():
        assert ends[key] >= end_offset, f"{key} was promised up to {end_offset}"
    for log in broker.manager.all():
        log.check()
        assert log.log_start_offset <= log.end_offset
        assert log.flush_state.recovery_point <= log.end_offset
        assert log.log_start_offset <= log.high_watermark <= log.end_offset
    if day.is_stopped:
        assert [contents.was_clean_shutdown for contents in broker.report] == [True, True]
        assert ends == day.durable
    broker.create("orders", 7)
    broker.stop()
    again = Broker(day.files, ["/a", "/b"]).start(lambda _: CONFIG)
    assert [contents.was_clean_shutdown for contents in again.report] == [True, True]
    assert any(log.topic == "orders" for log in again.manager.all())


def operations_of(action: Callable[[Day], None]) -> int:
    day = Day(MemoryFileSystem(folders=("/a", "/b")))
    action(day)
    return day.files.operations


def test_power_cut_at_every_operation_loses_nothing_that_was_promised() -> None:
    count = operations_of(Day.live)
    assert count > 100
    for n in range(1, count + 1):
        files = MemoryFileSystem(folders=("/a", "/b"))
        day = Day(files)
        files.fail_operation(n, cast(OSError, PowerCut()))
        with pytest.raises(PowerCut):
            day.live()
        files.crash(SeededRandomness(n))
        after_crash(day)


def test_after_a_clean_stop_a_power_cut_takes_nothing() -> None:
    for seed in range(20):
        files = MemoryFileSystem(folders=("/a", "/b"))
        day = Day(files)
        day.live()
        files.crash(SeededRandomness(seed))
        after_crash(day)


def test_power_cut_at_every_operation_of_a_second_start_loses_nothing() -> None:
    for is_clean in (True, False):
        n = 0
        while True:
            n += 1
            files = MemoryFileSystem(folders=("/a", "/b"))
            day = Day(files)
            day.live()
            if not is_clean:
                files.remove("/a/.kafka_cleanshutdown")
                files.sync_directory("/a")
            day.is_stopped = False
            files.fail_operation(n, cast(OSError, PowerCut()))
            operations = files.operations
            try:
                Broker(files, ["/a", "/b"]).start(lambda _: CONFIG)
            except PowerCut:
                files.crash(SeededRandomness(n))
                after_crash(day)
                continue
            assert files.operations - operations < n
            break


def test_error_at_any_operation_leaves_the_other_directory_online() -> None:
    count = operations_of(Day.live)
    for n in range(1, count + 1, 3):
        files = MemoryFileSystem(folders=("/a", "/b"))
        day = Day(files)
        files.fail_operation(n, OSError(errno.EIO, "the disk is broken"))
        try:
            day.live()
        except NoDirectoryLeft:
            pytest.fail("one broken directory does not stop the broker")
        except Exception:  # noqa: BLE001 - a call on a log that has just gone offline
            pass
        files.crash(SeededRandomness(n))
        broker = Broker(files, ["/a", "/b"]).start(lambda _: CONFIG)
        assert broker.manager.take_failures() == []
        for log in broker.manager.all():
            log.check()


@pytest.mark.parametrize("stops", [(), (True,), (False,), (True, True, False, True)])
def test_gap_of_a_power_cut_is_known_over_stops_until_it_is_explained(
    stops: tuple[bool, ...],
) -> None:
    """stops  of the starts that found it: in order or not"""
    files = MemoryFileSystem(folders=("/a", "/b"))
    broker = Broker(files, ["/a", "/b"]).start(lambda _: CONFIG)
    log = broker.create("orders", config=CONFIG)
    append(log, 12)
    broker.upkeep.checkpoint()
    directory, gap_offset = log.directory.rpartition("/")[0], log.segments.base_offsets[1]
    files.kill()
    files.replace(f"{log.directory}/{gap_offset:020d}.log", b"")
    for is_clean in stops:
        again = Broker(files, ["/a", "/b"]).start(lambda _: CONFIG)
        if is_clean:
            again.stop()
            assert not files.exists(f"{directory}/{CLEAN_SHUTDOWN_FILE}")
        files.kill()
    again = Broker(files, ["/a", "/b"]).start(lambda _: CONFIG)
    loaded_log = again.manager.get("orders", 0)
    assert loaded_log is not None
    assert loaded_log.segment_gap is not None
    assert loaded_log.segment_gap.start_offset == gap_offset
    loaded_log.gaps.explain(loaded_log.segment_gap.end_offset)
    again.stop()
    assert files.exists(f"{directory}/{CLEAN_SHUTDOWN_FILE}")
