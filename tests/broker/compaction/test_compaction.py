"""The cleaner's edge against workers that die, hang, talk nonsense, fail and succeed."""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from broker.compaction.compaction import CleaningError, Compaction
from broker.compaction.worker_process import COMMAND, WorkerProcess
from broker.replication.partitions import Partitions
from broker.services import Services
from broker.settings.broker_settings import make_settings
from protocol.records.batch import RecordBatch
from protocol.records.builder import build_batch
from protocol.records.record import Record
from runtime.clock import SystemClock
from runtime.metrics import BrokerMetrics
from runtime.system_files import SystemFileSystem
from runtime.tasks import Supervisor
from runtime.timers import TimingWheel
from runtime.wheel_driver import WheelDriver
from storage.checkpoint import CLEANER_OFFSET_FILE, read_offsets
from storage.compaction.wire import STARVED
from storage.log import Log
from storage.log_config import LogConfig
from tests.support.log_directories import Broker

CONFIG = LogConfig(
    segment_bytes=1_000, cleanup_compact=True, cleanup_delete=False, min_cleanable_dirty_ratio=0.0
)
KEYS = 10
NOW_MS = 1_700_000_000_000
PATIENCE_S = 20.0

Fake = tuple[str, ...]


def fake(code: str) -> Fake:
    """A worker that runs `code` for every job; `say` answers."""
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
    failure = json.dumps({"reason": "as it was told", "error_number": error_number})
    return fake(f"say(failure=json.loads({failure!r}))")


DIES = fake("os._exit(1)")
HANGS = fake("wait(1000)")
RAVES = fake("print('who am I', flush=True)")


class House:
    """Logs and their cleaner on a loop, without a node."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self.files = SystemFileSystem()
        self.stored = Broker(self.files, [str(folder / "a"), str(folder / "b")], now_ms=NOW_MS)
        self.stored.start(lambda topic: CONFIG)
        self.fatal: list[str] = []
        self.done: list[Log] = []
        executor = ThreadPoolExecutor(2)
        self.worker = WorkerProcess(executor, command)
        clock = SystemClock()
        loop = asyncio.get_running_loop()
        parts: dict[str, Any] = {field.name: None for field in fields(Services)}
        self.services = Services(
            **{
                **parts,
                "settings": make_settings({"log.cleaner.backoff.ms": "100"}),
                "clock": clock,
                "metrics": BrokerMetrics(),
                "partitions": Partitions(),
                "logs": self.stored.manager,
            }
        )
        self.metrics = self.services.metrics
        self.supervisor = Supervisor(loop, lambda name, error: self.fatal.append(repr(error)))
        self.wheel = WheelDriver(loop, clock, TimingWheel(clock.monotonic_ms()))
        self.compaction = Compaction(
            self.services,
            files=self.files,
            executor=executor,
            wheel=self.wheel,
            upkeep=self.stored.upkeep,
            run_jobs=self.stored.perform,
            on_fatal=self.fatal.append,
            on_done=self.done.append,
            worker=self.worker,
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
        ends = {(each.topic, each.partition): each.end_offset for each in self.stored.manager.all()}
        self.stored.perform(self.stored.upkeep.checkpoint_high_watermarks(ends))

    async def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Let the loop run until it is so."""
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
async def house(folder: Path, command: Sequence[str] = COMMAND) -> AsyncIterator[House]:
    """Started by the test, ended here."""
    made = House(folder, command)
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


def test_a_log_is_cleaned_and_its_checkpoint_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path) as made:
            log = made.log("orders")
            active = log.active.base_offset
            assert len(log.segments) > 3
            made.compaction.start(made.supervisor)
            result = await made.compaction.run_now("orders", 0)
            assert result is not None
            assert (result.end_offset, result.kept_records) == (active, KEYS)
            assert checkpointed(log) == active
            assert log.active.base_offset == active
            log.check()
            assert made.done == [log]
            metrics = made.metrics
            assert (metrics.compactions, metrics.compaction_worker_deaths) == (1, 0)
            assert metrics.compaction_read_bytes == result.read_bytes > 0
            assert metrics.compaction_written_bytes == result.written_bytes > 0
            assert await made.compaction.run_now("orders", 0) is None, "nothing is dirty"
            made.write(log)
            again = await made.compaction.run_now("orders", 0)
            assert again is not None
            assert again.end_offset == log.active.base_offset > active
            assert made.worker.start_count == 1, "one worker for all"

    run(test())


def test_the_dirtiest_of_those_that_are_due_goes_first(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path) as made:
            half = replace(CONFIG, min_cleanable_dirty_ratio=0.5)
            logs = [made.log(name, config=half) for name in ("one", "two", "three")]
            plain = made.log("plain", config=replace(CONFIG, cleanup_compact=False))
            directory = made.stored.manager.directory_of
            for log, clean_segments in zip(logs, (1, 0, 3), strict=True):
                directory(log).note_cleaned(log, log.base_offsets[clean_segments])
            made.compaction.start(made.supervisor)
            await made.until("two cleanings", lambda: made.metrics.compactions == 2)
            await made.until("a rest", lambda: made.compaction.log_in_work is None)
            assert made.done == [logs[1], logs[0]]
            assert 0 < made.metrics.compaction_dirty_ratio_max < 0.5, "of the third"
            assert checkpointed(plain) is None

    run(test())


@pytest.mark.parametrize("command", [DIES, RAVES], ids=["dies", "raves"])
def test_a_worker_that_dies_is_replaced_ever_more_rarely(tmp_path: Path, command: Fake) -> None:
    async def test() -> None:
        async with house(tmp_path, command) as made:
            log = made.log("orders")
            made.compaction.start(made.supervisor)
            with pytest.raises(CleaningError, match="was not cleaned"):
                await made.compaction.run_now("orders", 0)
            await made.until("two deaths", lambda: made.metrics.compaction_worker_deaths == 2)
            assert made.worker.start_count == 2
            assert made.compaction.uncleanable == {}
            made.worker._command = COMMAND
            await made.until("its end", lambda: checkpointed(log) == log.active.base_offset)

    run(test())


def test_a_worker_that_says_nothing_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path, HANGS) as made:
            made.worker.silence_s = 0.2
            made.log("orders")
            made.compaction.start(made.supervisor)
            with pytest.raises(CleaningError, match="silent"):
                await made.compaction.run_now("orders", 0)
            assert made.worker.pid is None
            assert made.metrics.compaction_worker_deaths == 1

    run(test())


def test_a_log_that_cannot_be_cleaned_is_left_alone_and_the_others_are_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path) as made:
            log, other = made.log("damaged"), made.log("orders")
            name = f"{log.directory}/{0:020d}.log"
            file = made.files.open(name)
            file.write_at(100, b"\xff" * 50)
            file.close()
            made.compaction.start(made.supervisor)
            await made.until("a cleaning", lambda: checkpointed(other) == other.active.base_offset)
            await made.until("giving up", lambda: made.compaction.uncleanable)
            assert list(made.compaction.uncleanable) == [log.directory]
            assert made.metrics.compaction_uncleanable_logs == 1
            assert checkpointed(log) is None
            assert made.stored.manager.offline_directories == ()
            # A topic that is made anew is another one.
            made.stored.manager.delete([("damaged", 0)], unique="0" * 32, now_ms=NOW_MS)
            again = made.log("damaged")
            await made.until("its end", lambda: checkpointed(again) == again.active.base_offset)
            assert made.metrics.compaction_uncleanable_logs == 0

    run(test())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EMFILE, errno.ENOENT])
def test_what_may_pass_is_tried_again(tmp_path: Path, number: int) -> None:
    async def test() -> None:
        async with house(tmp_path, failing(number)) as made:
            made.log("orders")
            made.compaction.start(made.supervisor)
            await made.until("two attempts", lambda: len(made.done) == 2)
            assert made.compaction.uncleanable == {}
            assert made.stored.manager.offline_directories == ()

    run(test())


def test_a_disk_that_fails_takes_its_directory_offline(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path, failing(errno.EIO)) as made:
            log = made.log("orders")
            made.compaction.start(made.supervisor)
            await made.until("the end", lambda: made.stored.manager.offline_directories)
            assert made.stored.manager.offline_directories == (log.directory.rpartition("/")[0],)

    run(test())


def test_the_last_directory_takes_the_broker_with_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path, failing(errno.EIO)) as made:
            for number in range(2):
                made.stored.create("orders", number, config=CONFIG)
            for number in range(2):
                log = made.stored.manager.get("orders", number)
                assert log is not None
                made.write(log)
            made.compaction.start(made.supervisor)
            await made.until("the end", lambda: made.fatal)
            assert "no directory of log.dirs is left" in made.fatal.pop()

    run(test())


def test_a_worker_that_starves_is_replaced_by_a_hurried_one(tmp_path: Path) -> None:
    starving = fake(
        "if 'hurried' not in sys.argv:\n"
        f"    say(failure=dict(reason='hungry', error_number={STARVED}))\n"
        "else:\n"
        f"    say(failure=dict(reason='fed', error_number={errno.ENOSPC}))"
    )

    async def test() -> None:
        async with house(tmp_path, starving) as made:
            made.log("orders")
            made.compaction.start(made.supervisor)
            await made.until("another worker", lambda: made.worker.start_count == 2)
            await made.until("its answer", lambda: len(made.done) >= 2)
            assert made.worker.is_hurried

    run(test())


@pytest.mark.parametrize("event", ["cut", "deleted", "policy"])
def test_a_cleaning_that_is_not_wanted_any_more_is_ended(tmp_path: Path, event: str) -> None:
    reporting = fake("while True:\n    say(progress_bytes=1)\n    wait(0.01)")

    async def test() -> None:
        async with house(tmp_path, reporting) as made:
            log = made.log("orders")
            end_offset = log.end_offset
            made.compaction.start(made.supervisor)
            await made.until("a cleaning", lambda: made.worker.pid)
            if event == "cut":
                log.truncate_to(end_offset - KEYS, now_ms=NOW_MS)
            elif event == "deleted":
                made.stored.manager.delete([("orders", 0)], unique="0" * 32, now_ms=NOW_MS)
            else:
                log.config = replace(CONFIG, cleanup_compact=False)
            await made.until("an end", lambda: made.done == [log])
            assert made.worker.pid is None or event == "cut"
            assert checkpointed(log) is None

    run(test())


def test_segments_that_went_meanwhile_are_not_put_into_place(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path) as made:
            log = made.log("orders")
            clean = made.worker.clean

            async def clean_and_lose(*arguments: Any) -> Any:
                answer = await clean(*arguments)
                log.advance_log_start(log.base_offsets[1])
                log.delete_old_segments(now_ms=NOW_MS, high_watermark=log.end_offset)
                made.worker.clean = clean  # type: ignore[method-assign]
                return answer

            made.worker.clean = clean_and_lose  # type: ignore[method-assign]
            made.compaction.start(made.supervisor)
            with pytest.raises(CleaningError, match="its segments have changed"):
                await made.compaction.run_now("orders", 0)
            assert not [name for name in made.files.list(log.directory) if "cleaned" in name]
            await made.until("the next one", lambda: checkpointed(log) == log.active.base_offset)
            log.check()

    run(test())


def test_a_checkpoint_that_the_log_does_not_have_is_put_right(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path, failing(errno.ENOSPC)) as made:
            log = made.log("orders")
            directory = made.stored.manager.directory_of(log)
            directory.note_cleaned(log, log.end_offset + 1)
            made.compaction.start(made.supervisor)
            await made.until("the start", lambda: checkpointed(log) == 0)

    run(test())


def test_only_compacted_logs_that_are_here_can_be_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path) as made:
            made.log("plain", config=replace(CONFIG, cleanup_compact=False))
            made.compaction.start(made.supervisor)
            for topic in ("plain", "nothing"):
                with pytest.raises(CleaningError, match="not compacted here"):
                    await made.compaction.run_now(topic, 0)

    run(test())


def test_a_worker_with_nothing_to_do_ends_with_its_input(tmp_path: Path) -> None:
    async def test() -> None:
        async with house(tmp_path) as made:
            made.log("orders")
            made.compaction.start(made.supervisor)
            await made.compaction.run_now("orders", 0)
            running = made.worker._running
            assert running is not None
            running.close()
            wait = asyncio.get_running_loop().run_in_executor(None, running.process.wait, 10)
            assert await wait == 0

    run(test())
