"""What compaction keeps from the event loop: much reading, large jobs, long removals."""

from __future__ import annotations

import asyncio
import itertools
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.broker.compaction import facts, worker_process
from odradek.broker.node.directory_failures import DirectoryFailures
from odradek.broker.node.disk_job_runner import DiskJobRunner
from odradek.broker.node.platform import Platform
from odradek.broker.replication.partitions import Partitions
from odradek.runtime.files import FileSystem
from odradek.runtime.scheduler import ROUND_NS
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.compaction.candidates import SegmentTimes
from odradek.storage.compaction.job import CleaningJob
from odradek.storage.compaction.wire import encode_job
from odradek.storage.directories.disk_jobs import RemoveFiles
from odradek.storage.producers.producer_state import ProducerEntry
from odradek.storage.segments.segment import Segment
from tests.broker.compaction.cleaner import CONFIG, HANGS, NOW_MS, PATIENCE_S, cleaner, run


def test_times_of_many_new_segments_are_read_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, min_compaction_lag_ms=1)
    turn = 0
    read_in_turn: list[int] = []
    times_of = facts._times_of

    def read(segment: Segment) -> SegmentTimes:
        read_in_turn.append(turn)
        return times_of(segment)

    monkeypatch.setattr(facts, "_times_of", read)

    async def test() -> None:
        def count() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count)

        async with cleaner(tmp_path, HANGS, now_ns=itertools.count(step=ROUND_NS).__next__) as made:
            log = made.log("orders", config=config, rounds=50)
            loop = asyncio.get_running_loop()
            loop.call_soon(count)
            made.compaction.start(made.supervisor)
            await made.until("a cleaning", lambda: made.worker.pid)
            closed = len(log.segments) - 1
            assert len(read_in_turn) == closed, "each is read once"
            assert len(set(read_in_turn)) == closed, "one a turn"

    run(test())


def test_job_with_many_producers_is_encoded_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def encode(job: CleaningJob) -> bytes:
        threads.append(threading.get_ident())
        return encode_job(job)

    monkeypatch.setattr(worker_process, "encode_job", encode)

    async def test() -> None:
        async with cleaner(tmp_path) as made:
            log = made.log("orders")
            for producer_id in range(20_000):
                log.producer_states.entries[producer_id] = ProducerEntry(
                    producer_id, 0, (), -1, -1, NOW_MS
                )
            made.compaction.start(made.supervisor)
            assert await made.compaction.run_now("orders", 0)
        assert threads
        assert threading.get_ident() not in threads

    run(test())


class HeldUp(SystemFileSystem):
    """Files whose removal takes until `may_remove` is set."""

    def __init__(self) -> None:
        self.is_removing = threading.Event()
        self.may_remove = threading.Event()

    def remove(self, path: str) -> None:
        self.is_removing.set()
        assert self.may_remove.wait(PATIENCE_S)
        super().remove(path)


class HeldUpPlatform(Platform):
    """A node's loop and threads on such files."""

    def _open_files(self, *, is_fsync_enabled: bool) -> FileSystem:
        self.held_up = HeldUp()
        return self.held_up


def test_stop_leaves_removals_of_files_to_the_next_start(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.deleted" for number in range(3)]
    for path in paths:
        path.touch()

    async def test() -> None:
        async with cleaner(tmp_path) as made:
            platform = HeldUpPlatform(asyncio.get_running_loop(), on_fatal=made.fatal.append)
            files = platform.held_up
            partitions = Partitions()
            failures = DirectoryFailures(platform, made.context.logs, partitions)
            jobs = DiskJobRunner(platform, made.stored.upkeep, partitions, failures)
            jobs.run([RemoveFiles(str(tmp_path), (str(path),)) for path in paths])
            await made.until("the first one", files.is_removing.is_set)
            jobs.stop()
            files.may_remove.set()
            await jobs.finish()
            await platform.supervisor.close()
            platform.close()
        assert [path.exists() for path in paths] == [False, True, True]

    run(test())
