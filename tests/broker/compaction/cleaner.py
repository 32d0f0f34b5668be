"""Logs and their cleaner on a loop, without a node, and workers that do as a test wants."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any

from odradek.broker.compaction.compaction import Compaction
from odradek.broker.compaction.context import CleanerContext
from odradek.broker.compaction.worker_process import COMMAND, WorkerProcess
from odradek.broker.settings.broker_settings import CurrentSettings
from odradek.broker.settings.load import make_settings
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.runtime.clock import SystemClock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.scheduler import Scheduler
from odradek.runtime.system_files import SystemFileSystem
from odradek.runtime.tasks import Supervisor
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.storage.checkpoints.checkpoint_file import CLEANER_OFFSET_FILE, read_offsets
from odradek.storage.compaction.wire import PRIORITY_MAX
from odradek.storage.log.log import Log
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import Broker

CONFIG = LogConfig(
    segment_bytes=1_000, cleanup_compact=True, cleanup_delete=False, min_cleanable_dirty_ratio=0.0
)
KEYS = 10
NOW_MS = 1_700_000_000_000
PATIENCE_S = 60.0

Fake = tuple[str, ...]


def fake(code: str) -> Fake:
    """A worker that runs `code` for every job; `say` sends a line."""
    program = "\n".join(
        (
            "import json, os, sys, threading",
            "wait = threading.Event().wait",
            "def say(**said):",
            "    print(json.dumps(said), flush=True)",
            "for line in sys.stdin:",
            *(f"    {each}" for each in code.splitlines()),
        )
    )
    return (sys.executable, "-I", "-c", program)


def failing(error_number: int | None) -> Fake:
    """A worker whose every job fails."""
    failure = json.dumps({"reason": "a failure of the test", "error_number": error_number})
    return fake(f"say(failure=json.loads({failure!r}))")


DIES = fake("os._exit(1)")
HANGS = fake("wait(1000)")
TALKS_NONSENSE = fake("print('nonsense', flush=True)")


class Cleaner:
    """Logs and their cleaner on a loop, without a node."""

    def __init__(
        self, folder: Path, command: Sequence[str], now_ns: Callable[[], int], priority_least: int
    ) -> None:
        self.files = SystemFileSystem()
        self.stored = Broker(self.files, [str(folder / "a"), str(folder / "b")], now_ms=NOW_MS)
        self.stored.start(lambda topic: CONFIG)
        self.fatal: list[str] = []
        self.begun: list[Log] = []
        self.done: list[Log] = []
        executor = ThreadPoolExecutor(2)
        self.worker = WorkerProcess(executor, command, priority_least)
        clock = SystemClock()
        loop = asyncio.get_running_loop()
        metrics = BrokerMetrics()
        self.context = CleanerContext(
            clock=clock,
            settings=CurrentSettings(make_settings({"log.cleaner.backoff.ms": "100"})),
            logs=self.stored.manager,
            metrics=metrics,
            loop_watch=LoopWatch(metrics),
            run_jobs=self.stored.perform,
            on_fatal=self.fatal.append,
            scheduler=Scheduler(loop.call_soon, "compaction", now_ns=now_ns),
        )
        self.metrics = metrics
        self.supervisor = Supervisor(loop, lambda name, error: self.fatal.append(repr(error)))
        self.wheel = WheelDriver(loop, clock, TimingWheel(clock.monotonic_ms()))
        self.compaction = Compaction(
            self.context,
            files=self.files,
            executor=executor,
            wheel=self.wheel,
            upkeep=self.stored.upkeep,
            worker=self.worker,
            on_begin=self.begun.append,
            on_done=self.done.append,
        )

    def log(self, topic: str, *, config: LogConfig = CONFIG, rounds: int = 20) -> Log:
        """A log with some closed segments, its high watermark at its end."""
        log = self.stored.create(topic, config=config)
        self.write(log, rounds)
        return log

    def write(self, log: Log, rounds: int = 20) -> None:
        """Every key once a round."""
        for number in range(rounds):
            records = [
                Record(b"key %d" % key, b"%d" % number, timestamp_ms=NOW_MS) for key in range(KEYS)
            ]
            batch = RecordBatch(memoryview(build_batch(records)))
            log.append([batch], leader_epoch=0, now_ms=NOW_MS)
        log.advance_high_watermark(log.end_offset)

    async def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Let the loop run until `condition` holds."""
        pause = asyncio.Event()
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                try:
                    async with asyncio.timeout(0.01):
                        await pause.wait()
                except TimeoutError:
                    continue
        assert condition(), what


@asynccontextmanager
async def cleaner(
    folder: Path,
    command: Sequence[str] = COMMAND,
    *,
    now_ns: Callable[[], int] = monotonic_ns,
    priority_least: int = PRIORITY_MAX,
) -> AsyncIterator[Cleaner]:
    """Started by the test, ended here; its worker gets time on a busy machine, too."""
    made = Cleaner(folder, command, now_ns, priority_least)
    try:
        yield made
    finally:
        made.compaction.stop()
        await made.supervisor.close()
        made.wheel.close()
        made.stored.stop()
    assert made.fatal == []
    assert made.worker.pid is None


def run(test: Any) -> None:
    asyncio.run(test)


def checkpointed(log: Log) -> int | None:
    directory = log.directory.rpartition("/")[0]
    offsets = read_offsets(SystemFileSystem(), f"{directory}/{CLEANER_OFFSET_FILE}")
    return offsets.get((log.topic, log.partition))
