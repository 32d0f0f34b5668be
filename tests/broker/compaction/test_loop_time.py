"""What compaction keeps from the event loop: much reading, large jobs, long removals."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.compaction import compaction, facts, worker_process
from odradek.broker.node.background import Background
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.compaction.candidates import SegmentTimes
from odradek.storage.compaction.job import CleaningJob
from odradek.storage.compaction.wire import encode_job
from odradek.storage.directories.disk_jobs import RemoveFiles
from odradek.storage.producers.producer_state import ProducerEntry
from odradek.storage.segments.segment import Segment
from tests.broker.compaction.house import (
    CONFIG,
    HANGS,
    NOW_MS,
    PATIENCE_S,
    house,
    run,
)


def test_times_of_many_new_segments_are_read_with_turns_for_others(
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
    monkeypatch.setattr(compaction, "SLICE_MS", 0)

    async def test() -> None:
        def count() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count)

        async with house(tmp_path, HANGS) as made:
            log = made.log("orders", config=config, rounds=50)
            loop = asyncio.get_running_loop()
            loop.call_soon(count)
            made.compaction.start(made.supervisor)
            await made.until("a cleaning", lambda: made.worker.pid)
            closed = len(log.segments) - 1
            assert len(read_in_turn) == closed, "each is read once"
            assert len(set(read_in_turn)) == closed, "one a turn"

    run(test())


def test_a_job_with_very_many_producers_is_put_into_words_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def encode(job: CleaningJob) -> bytes:
        threads.append(threading.get_ident())
        return encode_job(job)

    monkeypatch.setattr(worker_process, "encode_job", encode)

    async def test() -> None:
        async with house(tmp_path) as made:
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
    """Files whose removal takes until somebody lets it go on."""

    def __init__(self) -> None:
        self.is_removing = threading.Event()
        self.may_remove = threading.Event()

    def remove(self, path: str) -> None:
        self.is_removing.set()
        assert self.may_remove.wait(PATIENCE_S)
        super().remove(path)


def test_a_stop_leaves_the_files_that_were_set_aside_to_the_next_start(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.deleted" for number in range(3)]
    for path in paths:
        path.touch()

    async def test() -> None:
        async with house(tmp_path) as made:
            files = HeldUp()
            background = Background(
                replace(made.services, appends=cast(Any, SimpleNamespace())),
                loop=asyncio.get_running_loop(),
                files=files,
                executor=ThreadPoolExecutor(1),
                supervisor=made.supervisor,
                wheel=made.wheel,
                server=cast(Any, None),
                on_fatal=made.fatal.append,
            )
            background.start()
            background.run_jobs([RemoveFiles(str(tmp_path), (str(path),)) for path in paths])
            await made.until("the first one", files.is_removing.is_set)
            background.stop()
            files.may_remove.set()
            await background.finish()
        assert [path.exists() for path in paths] == [False, True, True]

    run(test())
