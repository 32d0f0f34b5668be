"""Keeps compacted logs short: a worker process cleans one log at a time, the loop does the rest.

The loop chooses a log (`chooser`), sends the worker a job, and at its end renames the cleaned files
into place.  The worker (`worker_process`) reads, compares and writes.  Meanwhile clients append to
the log and read it, and leadership may move.  Nothing is put into place if the log was truncated or
deleted, is no longer compacted, or has lost segments since.  `failures` decides what follows from a
failure.
Source: Kafka's LogCleaner.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from time import monotonic_ns
from typing import Final

from odradek.broker.compaction.chooser import CleaningChooser
from odradek.broker.compaction.context import CleanerContext
from odradek.broker.compaction.facts import job_of
from odradek.broker.compaction.failures import CleaningError, CleaningFailures
from odradek.broker.compaction.worker_process import WorkerDied, WorkerProcess
from odradek.runtime.files import FileSystem
from odradek.runtime.tasks import Supervisor
from odradek.runtime.wheel_driver import WheelDriver
from odradek.runtime.work import pause
from odradek.storage.compaction.candidates import Candidate
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.leftovers import remove_leftovers
from odradek.storage.compaction.wire import NO_CPU_TIME, CleaningFailure
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.log.log import Log

IDLE_MS: Final = 60_000
"""A worker that has had no job for so long is ended: it takes 20 MB."""

_WHEN_CHANGED: Final = (None, errno.ENOENT)
"""Error numbers of a job whose log was truncated or deleted meanwhile: what the worker reads is
missing or has other content."""

logger = logging.getLogger("odradek.compaction")


class Compaction:
    """The cleaner of one node.

    upkeep    removes the replaced files later
    on_begin  called with each log whose cleaning begins
    on_done   called with the log after its cleaning, whether it has succeeded or failed
    """

    def __init__(
        self,
        context: CleanerContext,
        *,
        files: FileSystem,
        executor: Executor,
        wheel: WheelDriver,
        upkeep: Upkeep,
        worker: WorkerProcess,
        on_begin: Callable[[Log], None],
        on_done: Callable[[Log], None],
    ) -> None:
        self._context = context
        self._files = files
        self._executor = executor
        self._wheel = wheel
        self._upkeep = upkeep
        self._on_begin = on_begin
        self._on_done = on_done
        self.worker = worker
        self.failures = CleaningFailures(context)
        self.chooser = CleaningChooser(context, self.failures)
        self.log_in_work: Log | None = None
        """The log that is being cleaned."""
        self._requested: dict[Log, asyncio.Future[CleaningResult | None]] = {}
        self._wake = asyncio.Event()
        self._last_job_ms = 0
        self._is_stopped = False

    def start(self, supervisor: Supervisor) -> None:
        """Begin to clean; the logs are loaded."""
        supervisor.start("compaction", self._run())

    def stop(self) -> None:
        """Begin no further cleaning, and kill the worker."""
        self._is_stopped = True
        self._wake.set()
        self.worker.kill_now()

    def wake(self) -> None:
        """Look now whether a log is due."""
        self._wake.set()

    def on_settings_changed(self) -> None:
        """Apply log.cleaner.* as it is now."""
        self.worker.set_rate(self._context.settings.value.log_cleaner_io_max_bytes_per_second)
        self.wake()

    def run_now(self, topic: str, partition: int) -> asyncio.Future[CleaningResult | None]:
        """Clean a log as soon as possible, whatever its dirty ratio.

        returns  the result, None when there is nothing to clean; CleaningError when the log is not
                 on this broker or not compacted, when the cleaning fails, or when
                 log.cleaner.enable is false
        """
        is_off = self._is_stopped or not self._context.settings.value.log_cleaner_enable
        log = self._context.logs.get(topic, partition)
        outcome: asyncio.Future[CleaningResult | None] = asyncio.get_running_loop().create_future()
        if log is None or not log.config.cleanup_compact or is_off:
            outcome.set_exception(CleaningError(f"{topic}-{partition} is not compacted here"))
            return outcome
        outcome = self._requested.setdefault(log, outcome)
        self._wake.set()
        return outcome

    async def _run(self) -> None:
        try:
            while not self._is_stopped:
                chosen = self._next_requested() or await self.chooser.dirtiest()
                if chosen is None:
                    await self._rest()
                else:
                    await self._clean(*chosen)
        finally:
            for outcome in self._requested.values():
                outcome.cancel()
            await self.worker.kill()

    async def _rest(self) -> None:
        """Wait until log.cleaner.backoff.ms is over or `wake` is called."""
        self._wake.clear()
        if self._requested or self._is_stopped:
            return
        now_ms = self._context.clock.monotonic_ms()
        wait_ms = self.failures.backoff_ms
        if self.worker.pid is not None:
            idle_ms = now_ms - self._last_job_ms
            if idle_ms >= IDLE_MS:
                self.worker.reset_priority()
                await self.worker.kill()
            else:
                wait_ms = min(wait_ms, IDLE_MS - idle_ms)
        timer = self._wheel.add(now_ms + wait_ms, self._wake.set)
        await self._wake.wait()
        timer.cancel()

    def _next_requested(self) -> tuple[Log, Candidate] | None:
        for log in list(self._requested):
            candidate = self.chooser.judge(log)
            if candidate is not None and candidate.cleanable_bytes:
                return log, candidate
            self._resolve(log, None)
        return None

    async def _clean(self, log: Log, candidate: Candidate) -> None:
        context, failures = self._context, self.failures
        self.log_in_work = log
        self._on_begin(log)
        priority = self.worker.priority
        outcome: CleaningResult | CleaningError | None = None
        try:
            job = job_of(log, candidate, context.settings.value, context.clock.now_ms())
            report = await self.worker.clean(job, lambda: self._is_current(log, job))
            if self._is_stopped:
                return
            outcome = await self._finish(log, job, report)
        except CorruptBatch as error:
            outcome = failures.give_up(log, str(error))
        except WorkerDied as error:
            context.metrics.compaction_worker_deaths += 1
            outcome = failures.try_again(log, str(error))
        except OSError as error:
            outcome = failures.on_system_error(log, str(error), error.errno)
        except Exception as error:  # one log must not keep the others from being cleaned
            logger.exception("the cleaning of %s failed", log.directory)
            outcome = failures.give_up(log, repr(error))
        finally:
            self.log_in_work = None
            self._last_job_ms = context.clock.monotonic_ms()
        if self._is_stopped:
            return
        # After renaming files has failed, the next start needs to see which are left.
        if not isinstance(outcome, CleaningResult) and not log.is_offline:
            await self._remove_leftovers(log)
        # Who has asked for the cleaning waits for a worker with a higher priority.
        if self.worker.priority == priority:
            given_up = CleaningError(f"the cleaning of {log.directory} was given up")
            self._resolve(log, outcome or given_up)
        self._on_done(log)

    def _is_current(self, log: Log, job: CleaningJob) -> bool:
        """Whether the log is still what the job was made of."""
        return self.chooser.is_compacted(log) and log.truncation_count == job.truncation_count

    async def _finish(
        self, log: Log, job: CleaningJob, report: CleaningResult | CleaningFailure | None
    ) -> CleaningResult | CleaningError | None:
        """Put the result into place, or decide what follows from a failure.

        returns  None when the cleaning was given up without a fault of the log
        """
        is_current = self._is_current(log, job)
        if isinstance(report, CleaningFailure) and (
            is_current or report.error_number not in _WHEN_CHANGED
        ):
            return await self._on_failure(log, report)
        if isinstance(report, CleaningFailure) or report is None or not is_current:
            logger.info(
                "the cleaning of %s is given up: the log was truncated, or is not compacted any "
                "more",
                log.directory,
            )
            return None
        if not await self._context.in_slices(self._put_in_place(log, job, report)):
            if self._is_stopped:
                return None
            return self.failures.try_again(log, "its segments have changed meanwhile")
        self._on_cleaned(log, job, report)
        if report.end_offset <= job.first_dirty_offset:
            return self.failures.try_again(log, "the cleaning got no further")
        self.failures.note_success(log)
        return report

    async def _on_failure(self, log: Log, failure: CleaningFailure) -> CleaningError | None:
        if failure.error_number is None:
            return self.failures.give_up(log, failure.reason)
        if failure.error_number != NO_CPU_TIME:
            return self.failures.on_system_error(log, failure.reason, failure.error_number)
        logger.info("the cleaning of %s starts again with a higher priority", log.directory)
        self.worker.raise_priority()
        await self.worker.kill()
        return None

    async def _put_in_place(self, log: Log, job: CleaningJob, result: CleaningResult) -> bool:
        """Replace segments by cleaned ones, group by group.

        returns  False when the log has changed or the broker stops; groups that were replaced
                 before stay, since what was removed from them has a later record of its key
        """
        context = self._context
        for group in result.groups:
            await pause()
            if self._is_stopped or not self.chooser.is_compacted(log):
                return False
            began_ns = monotonic_ns()
            removed = log.replace_segments(
                [group], truncation_count=job.truncation_count, now_ms=context.clock.now_ms()
            )
            context.loop_watch.ran(began_ns, "putting cleaned segments into place")
            if removed is None:
                return False
            self._upkeep.set_aside(log, removed)
        return True

    def _on_cleaned(self, log: Log, job: CleaningJob, result: CleaningResult) -> None:
        context = self._context
        directory = context.logs.directory_of(log)
        directory.note_cleaned(log, result.end_offset)
        context.run_jobs(list(directory.checkpoint_cleaner_offsets()))
        metrics = context.metrics
        metrics.compactions += 1
        metrics.compaction_read_bytes += result.read_bytes
        metrics.compaction_written_bytes += result.written_bytes
        metrics.compaction_last_ms = result.elapsed_ms
        logger.info(
            "cleaned %s from %d to %d: %d of %d records and %d bytes are left, in %d ms",
            log.directory,
            job.first_dirty_offset,
            result.end_offset,
            result.kept_records,
            result.read_records,
            result.written_bytes,
            result.elapsed_ms,
        )

    async def _remove_leftovers(self, log: Log) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, remove_leftovers, self._files, log.directory)
        except OSError as error:
            logger.warning("leftovers of a cleaning stay in %s: %s", log.directory, error)

    def _resolve(self, log: Log, outcome: CleaningResult | CleaningError | None) -> None:
        """Give the outcome to the callers of `run_now`."""
        requested = self._requested.pop(log, None)
        if requested is None or requested.done():
            return
        if isinstance(outcome, CleaningError):
            requested.set_exception(outcome)
        else:
            requested.set_result(outcome)
