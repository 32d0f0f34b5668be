"""The cleaner with workers that die, hang, send nonsense, fail and succeed."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.broker.compaction.failures import CleaningError
from odradek.broker.compaction.worker_process import COMMAND
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.wire import NO_CPU_TIME, PRIORITY_MAX, CleaningFailure
from odradek.storage.log.log import Log
from odradek.storage.log.retention import delete_old_segments
from tests.broker.compaction.cleaner import (
    CONFIG,
    DIES,
    HANGS,
    KEYS,
    NOW_MS,
    PATIENCE_S,
    TALKS_NONSENSE,
    Fake,
    checkpointed,
    cleaner,
    failing,
    fake,
    run,
)
from tests.support.damage import overwrite
from tests.support.logs import truncate_log

Cleaned = CleaningResult | CleaningFailure | None


def test_log_is_cleaned_and_its_checkpoint_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path) as made:
            # Only what is asked for is cleaned: no ratio is above 1.
            log = made.log("orders", config=replace(CONFIG, min_cleanable_dirty_ratio=1.0))
            active = log.segments.active.base_offset
            assert len(log.segments) > 3
            made.compaction.start(made.supervisor)
            result = await made.compaction.run_now("orders", 0)
            assert result is not None
            assert (result.end_offset, result.kept_records) == (active, KEYS)
            assert checkpointed(log) == active
            assert log.segments.active.base_offset == active
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
            assert again.end_offset == log.segments.active.base_offset > active
            assert made.worker.start_count == 1, "one worker for all"

    run(test())


def test_log_with_the_largest_dirty_ratio_is_cleaned_first(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path) as made:
            half = replace(CONFIG, min_cleanable_dirty_ratio=0.5)
            logs = [made.log(name, config=half) for name in ("one", "two", "three")]
            plain = made.log("plain", config=replace(CONFIG, cleanup_compact=False))
            directory = made.stored.manager.directory_of
            for log, clean_segments in zip(logs, (1, 0, 3), strict=True):
                directory(log).note_cleaned(log, log.segments.base_offsets[clean_segments])
            made.compaction.start(made.supervisor)
            await made.until("two cleanings", lambda: made.metrics.compactions == 2)
            await made.until("a rest", lambda: made.compaction.log_in_work is None)
            assert made.done == [logs[1], logs[0]]
            assert 0 < made.metrics.compaction_dirty_ratio_max < 0.5, "of the third"
            assert checkpointed(plain) is None

    run(test())


@pytest.mark.parametrize("command", [DIES, TALKS_NONSENSE], ids=["dies", "raves"])
def test_worker_that_dies_is_replaced_after_growing_pauses(tmp_path: Path, command: Fake) -> None:
    async def test() -> None:
        async with cleaner(tmp_path, command) as made:
            log = made.log("orders")
            made.compaction.start(made.supervisor)
            with pytest.raises(CleaningError, match="was not cleaned"):
                await made.compaction.run_now("orders", 0)
            await made.until("two deaths", lambda: made.metrics.compaction_worker_deaths == 2)
            assert made.worker.start_count == 2
            assert made.compaction.failures.uncleanable == {}
            made.worker._command = COMMAND
            await made.until(
                "its end", lambda: checkpointed(log) == log.segments.active.base_offset
            )

    run(test())


def test_silent_worker_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path, HANGS) as made:
            made.worker.silence_s = 0.2
            made.log("orders")
            made.compaction.start(made.supervisor)
            with pytest.raises(CleaningError, match="silent"):
                await made.compaction.run_now("orders", 0)
            assert made.worker.pid is None
            assert made.metrics.compaction_worker_deaths == 1

    run(test())


def test_uncleanable_log_is_skipped_and_the_others_are_cleaned(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path) as made:
            log, other = made.log("damaged"), made.log("orders")
            name = f"{log.directory}/{0:020d}.log"
            file = made.files.open(name)
            overwrite(file, 100, b"\xff" * 50)
            file.close()
            made.compaction.start(made.supervisor)
            await made.until(
                "a cleaning", lambda: checkpointed(other) == other.segments.active.base_offset
            )
            await made.until("giving up", lambda: made.compaction.failures.uncleanable)
            assert list(made.compaction.failures.uncleanable) == [log]
            assert made.metrics.compaction_uncleanable_logs == 1
            assert checkpointed(log) is None
            assert made.stored.manager.offline_directories == ()
            # A topic that is created again is another one.
            made.stored.delete(("damaged", 0), now_ms=NOW_MS)
            again = made.log("damaged")
            await made.until(
                "its end", lambda: checkpointed(again) == again.segments.active.base_offset
            )
            assert made.metrics.compaction_uncleanable_logs == 0

    run(test())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EMFILE, errno.ENOENT])
def test_passing_error_is_retried(tmp_path: Path, number: int) -> None:
    async def test() -> None:
        async with cleaner(tmp_path, failing(number)) as made:
            made.log("orders")
            made.compaction.start(made.supervisor)
            await made.until("two attempts", lambda: len(made.done) == 2)
            assert made.compaction.failures.uncleanable == {}
            assert made.stored.manager.offline_directories == ()

    run(test())


def test_disk_error_takes_the_directory_offline(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path, failing(errno.EIO)) as made:
            log = made.log("orders")
            made.compaction.start(made.supervisor)
            await made.until("the end", lambda: made.stored.manager.offline_directories)
            assert made.stored.manager.offline_directories == (log.directory.rpartition("/")[0],)

    run(test())


def test_failure_of_the_last_directory_is_fatal(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path, failing(errno.EIO)) as made:
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


@pytest.mark.parametrize("is_requested", [False, True])
def test_starved_worker_is_replaced_by_ones_of_higher_priorities(
    tmp_path: Path, is_requested: bool
) -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=1.0) if is_requested else CONFIG
    starving = fake(
        f"if int(sys.argv[1]) < {PRIORITY_MAX}:\n"
        f"    say(failure=dict(reason='hungry', error_number={NO_CPU_TIME}))\n"
        "else:\n"
        f"    say(failure=dict(reason='fed', error_number={errno.ENOSPC}))"
    )

    async def test() -> None:
        async with cleaner(tmp_path, starving, priority_least=0) as made:
            made.log("orders", config=config)
            made.compaction.start(made.supervisor)
            requested = made.compaction.run_now("orders", 0) if is_requested else None
            workers = 1 + PRIORITY_MAX
            await made.until("more workers", lambda: made.worker.start_count == workers)
            await made.until("the last response", lambda: len(made.done) >= workers)
            assert made.worker.priority == PRIORITY_MAX
            if requested is not None:
                with pytest.raises(CleaningError, match="fed"):
                    await requested

    run(test())


@pytest.mark.parametrize("is_started", [False, True])
def test_rate_that_changes_before_the_worker_has_its_job_is_applied(
    tmp_path: Path, is_started: bool
) -> None:
    """While the process starts, and while the job is encoded: the job has the earlier rate."""
    naming = fake(
        "if 'job' in line:\n"
        "    rate = json.loads(sys.stdin.readline())['bytes_per_second_max']\n"
        "    say(failure=dict(reason=str(rate), error_number=None))"
    )

    async def test() -> None:
        async with cleaner(tmp_path, naming) as made:
            log = made.log("orders")
            job = CleaningJob(
                directory=log.directory,
                base_offsets=(0,),
                log_start_offset=0,
                first_dirty_offset=0,
                first_uncleanable_offset=1,
                now_ms=NOW_MS,
                delete_retention_ms=0,
                segment_bytes=1_000,
                segment_index_bytes=1_000,
                index_interval_bytes=1_000,
                max_message_bytes=1_000,
                map_entries_max=1_000,
                bytes_per_second_max=3_000.0,
                truncation_count=0,
                later_aborts=(),
            )
            rates = [5_000.0]
            if is_started:
                rates.append(7_000.0)
            for rate in rates:
                cleaning = asyncio.create_task(made.worker.clean(job, lambda: True))
                turn = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(turn.set_result, None)
                await turn
                made.worker.set_rate(rate)
                async with asyncio.timeout(PATIENCE_S):
                    assert await cleaning == CleaningFailure(str(rate), None)
            assert made.worker.start_count == 1
            await made.worker.kill()

    run(test())


@pytest.mark.parametrize("event", ["cut", "deleted", "policy"])
def test_cleaning_ends_when_its_log_has_changed(tmp_path: Path, event: str) -> None:
    reporting = fake("while True:\n    say(progress_bytes=1)\n    wait(0.01)")

    async def test() -> None:
        async with cleaner(tmp_path, reporting) as made:
            log = made.log("orders")
            end_offset = log.end_offset
            made.compaction.start(made.supervisor)
            await made.until("a cleaning", lambda: made.worker.pid)
            if event == "cut":
                truncate_log(log, end_offset - KEYS, now_ms=NOW_MS)
            elif event == "deleted":
                made.stored.delete(("orders", 0), now_ms=NOW_MS)
            else:
                log.config = replace(CONFIG, cleanup_compact=False)
            await made.until("an end", lambda: made.done == [log])
            assert made.worker.pid is None or event == "cut"
            assert checkpointed(log) is None

    run(test())


@pytest.mark.parametrize("event", ["cut", "deleted", "policy"])
def test_log_that_changes_while_others_are_judged_is_judged_again(
    tmp_path: Path, event: str
) -> None:
    async def test() -> None:
        async with cleaner(tmp_path) as made:
            dirty, other = made.log("dirty"), made.log("other")
            made.stored.manager.directory_of(other).note_cleaned(
                other, other.segments.base_offsets[1]
            )
            look = made.compaction.chooser.read_times_ahead
            clean = made.worker.clean
            ends: list[tuple[str, int, int]] = []
            has_changed = False

            async def change(log: Log) -> None:
                nonlocal has_changed
                await look(log)
                if log is not other or has_changed:
                    return
                has_changed = True
                if event == "cut":
                    truncate_log(dirty, dirty.segments.base_offsets[2], now_ms=NOW_MS)
                elif event == "deleted":
                    made.stored.delete(("dirty", 0), now_ms=NOW_MS)
                else:
                    dirty.config = replace(CONFIG, cleanup_compact=False)

            async def note(job: CleaningJob, is_wanted: Callable[[], bool]) -> Cleaned:
                ends.append((job.directory, job.first_uncleanable_offset, dirty.end_offset))
                return await clean(job, is_wanted)

            made.compaction.chooser.read_times_ahead = change  # type: ignore[method-assign]
            made.worker.clean = note  # type: ignore[method-assign]
            made.compaction.start(made.supervisor)
            await made.until("the other's cleaning", lambda: other in made.done)
            of_log = [(offset, end) for folder, offset, end in ends if folder == dirty.directory]
            assert all(offset <= end for offset, end in of_log), "nothing beyond its end"
            assert bool(of_log) == (event == "cut")
            assert made.compaction.failures.uncleanable == {}

    run(test())


@pytest.mark.parametrize("event", ["cut", "deleted", "policy"])
@pytest.mark.parametrize("number", [None, errno.ENOENT])
def test_failure_on_a_changed_log_has_no_consequence(
    tmp_path: Path, event: str, number: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with cleaner(tmp_path, failing(number)) as made:
            log = made.log("orders")
            clean = made.worker.clean

            async def change_and_fail(job: CleaningJob, is_wanted: Callable[[], bool]) -> Cleaned:
                response = await clean(job, is_wanted)
                if event == "cut":
                    truncate_log(log, log.end_offset - KEYS, now_ms=NOW_MS)
                elif event == "deleted":
                    made.stored.delete(("orders", 0), now_ms=NOW_MS)
                else:
                    log.config = replace(CONFIG, cleanup_compact=False)
                return response

            made.worker.clean = change_and_fail  # type: ignore[method-assign]
            made.compaction.start(made.supervisor)
            await made.until("an end", lambda: made.done)
            assert made.compaction.failures.uncleanable == {}
            assert [record for record in caplog.records if record.levelname != "INFO"] == []

    run(test())


def test_result_for_deleted_segments_is_discarded(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path) as made:
            log = made.log("orders")
            clean = made.worker.clean

            async def clean_and_lose(job: CleaningJob, is_wanted: Callable[[], bool]) -> Cleaned:
                response = await clean(job, is_wanted)
                log.advance_log_start(log.segments.base_offsets[1])
                delete_old_segments(log, now_ms=NOW_MS)
                made.worker.clean = clean  # type: ignore[method-assign]
                return response

            made.worker.clean = clean_and_lose  # type: ignore[method-assign]
            made.compaction.start(made.supervisor)
            with pytest.raises(CleaningError, match="its segments have changed"):
                await made.compaction.run_now("orders", 0)
            assert not [name for name in made.files.list(log.directory) if "cleaned" in name]
            await made.until(
                "the next one", lambda: checkpointed(log) == log.segments.active.base_offset
            )
            log.check()

    run(test())


def test_checkpoint_outside_of_the_log_is_corrected(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path, failing(errno.ENOSPC)) as made:
            log = made.log("orders")
            directory = made.stored.manager.directory_of(log)
            directory.note_cleaned(log, log.end_offset + 1)
            made.compaction.start(made.supervisor)
            await made.until("the start", lambda: checkpointed(log) == 0)

    run(test())


def test_run_now_refuses_logs_that_are_missing_or_not_compacted(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path) as made:
            made.log("plain", config=replace(CONFIG, cleanup_compact=False))
            made.compaction.start(made.supervisor)
            for topic in ("plain", "nothing"):
                with pytest.raises(CleaningError, match="not compacted here"):
                    await made.compaction.run_now(topic, 0)

    run(test())


def test_worker_with_nothing_to_do_ends_with_its_input(tmp_path: Path) -> None:
    async def test() -> None:
        async with cleaner(tmp_path) as made:
            made.log("orders")
            made.compaction.start(made.supervisor)
            await made.compaction.run_now("orders", 0)
            running = made.worker._running
            assert running is not None
            running.close()
            wait = asyncio.get_running_loop().run_in_executor(None, running.process.wait, 10)
            assert await wait == 0

    run(test())
