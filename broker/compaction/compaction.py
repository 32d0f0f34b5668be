"""Keeps compacted logs short: chooses one, has the worker clean it, puts the outcome into place.

One log at a time.  The event loop decides, sends a job, and renames files at its end; reading,
comparing and writing is the worker process's (`worker_process`).  Meanwhile the log goes on: it is
appended to, read, given up by its leader.  What would make the outcome wrong (the log is cut,
deleted, no longer compacted, or has lost segments) is looked at before anything is put into place,
and then nothing is.

A failure has one of these consequences:

    the log cannot be cleaned     it is left alone until the broker starts again, or the topic is
                                  made anew (Kafka's uncleanable partitions)
    the disk has failed           its directory goes offline
    anything that may pass        it is tried again: a full disk, a dead or silent worker, segments
                                  that retention has deleted meanwhile

Source: Kafka's LogCleaner, LogCleanerManager.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from time import monotonic_ns
from typing import Final

from odradek.broker.compaction.backoff import SetBack
from odradek.broker.compaction.facts import (
    SegmentClock,
    facts_of,
    has_dirty_segment,
    job_of,
    read_times_ahead,
)
from odradek.broker.compaction.worker_process import WorkerDied, WorkerProcess
from odradek.broker.services import Services
from odradek.runtime.files import FileSystem
from odradek.runtime.tasks import Supervisor
from odradek.runtime.wheel_driver import WheelDriver
from odradek.storage.compaction.candidates import Candidate, choose, is_checkpoint_void, judge
from odradek.storage.compaction.job import CleaningJob, CleaningResult
from odradek.storage.compaction.leftovers import remove_leftovers
from odradek.storage.compaction.wire import STARVED, CleaningFailure
from odradek.storage.directories.disk_jobs import DiskJob
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.disk_errors import is_temporary
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.log import Log

REST_LEAST_MS: Final = 100
"""Whatever log.cleaner.backoff.ms says: looking at all logs again and again takes time, too."""
IDLE_MS: Final = 60_000
"""A worker that has had nothing to do for so long is ended: it takes 20 MB."""
SLICE_MS: Final = 2
"""How long looking at logs may keep the loop from its clients."""

_PASSES: Final = (
    errno.ENOENT,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EINTR,
)
"""Errors that say nothing of a disk."""
_WHEN_GONE: Final = (None, errno.ENOENT)
"""What a job fails with when its log is cut or deleted under its hands: what it reads is not there
any more, or is something else."""

logger = logging.getLogger("odradek.compaction")


class CleaningError(Exception):
    """A cleaning that was asked for did not come to its end; the text says why."""


class Compaction:
    """The cleaner of one node.

    upkeep    takes files that were set aside
    run_jobs  takes disk jobs that are too slow for the loop
    on_fatal  told why the broker cannot go on
    on_done   told of each log that is no longer being cleaned
    """

    def __init__(  # noqa: PLR0913 - the doors of a cleaner
        self,
        services: Services,
        *,
        files: FileSystem,
        executor: Executor,
        wheel: WheelDriver,
        upkeep: Upkeep,
        run_jobs: Callable[[list[DiskJob]], None],
        on_fatal: Callable[[str], None],
        on_done: Callable[[Log], None] = lambda log: None,
        worker: WorkerProcess | None = None,
    ) -> None:
        self._services = services
        self._files = files
        self._executor = executor
        self._wheel = wheel
        self._upkeep = upkeep
        self._run_jobs = run_jobs
        self._on_fatal = on_fatal
        self._on_done = on_done
        self.worker = WorkerProcess(executor) if worker is None else worker
        self.log_in_work: Log | None = None
        """The log that is being cleaned."""
        self._uncleanable: dict[Log, str] = {}
        self._set_back: SetBack[Log] = SetBack()
        self._times = SegmentClock()
        self._wanted: dict[Log, asyncio.Future[CleaningResult | None]] = {}
        self._news = asyncio.Event()
        self._outcome: CleaningResult | CleaningError = CleaningError("nothing was cleaned yet")
        self._last_job_ms = 0
        self._is_stopped = False

    # What others ask for.

    def start(self, supervisor: Supervisor) -> None:
        """Begin; the logs are loaded."""
        supervisor.start("compaction", self._run())

    def stop(self) -> None:
        """Begin nothing more, and end the worker."""
        self._is_stopped = True
        self._news.set()
        self.worker.kill_now()

    def wake(self) -> None:
        """Look for something to clean now."""
        self._news.set()

    def on_settings_changed(self) -> None:
        """The broker's settings have changed: log.cleaner.* count from now on."""
        self.worker.set_rate(self._services.settings.log_cleaner_io_max_bytes_per_second)
        self.wake()

    def run_now(self, topic: str, partition: int) -> asyncio.Future[CleaningResult | None]:
        """Clean a log as soon as possible, whatever its ratio; for tests and operators.

        returns  what was done, None when there is nothing to clean; CleaningError when the log is
                 not here, not compacted, when the cleaning fails, or log.cleaner.enable is false
        """
        is_off = self._is_stopped or not self._services.settings.log_cleaner_enable
        log = self._services.logs.get(topic, partition)
        answer: asyncio.Future[CleaningResult | None] = asyncio.get_running_loop().create_future()
        if log is None or not log.config.cleanup_compact or is_off:
            answer.set_exception(CleaningError(f"{topic}-{partition} is not compacted here"))
            return answer
        answer = self._wanted.setdefault(log, answer)
        self._news.set()
        return answer

    @property
    def uncleanable(self) -> dict[str, str]:
        """Logs that are left alone, by folder, and why."""
        return {log.directory: reason for log, reason in self._uncleanable.items()}

    # The task.

    async def _run(self) -> None:
        try:
            while not self._is_stopped:
                chosen = self._next_wanted() or await self._dirtiest()
                if chosen is None:
                    await self._rest()
                else:
                    await self._clean(*chosen)
        finally:
            for answer in self._wanted.values():
                answer.cancel()
            await self.worker.kill()

    async def _rest(self) -> None:
        """Until log.cleaner.backoff.ms is over, or something is asked for."""
        self._news.clear()
        if self._wanted or self._is_stopped:
            return
        now_ms = self._services.clock.monotonic_ms()
        wait_ms = self._backoff_ms()
        if self.worker.pid is not None:
            idle_ms = now_ms - self._last_job_ms
            if idle_ms >= IDLE_MS:
                self.worker.is_hurried = False
                await self.worker.kill()
            else:
                wait_ms = min(wait_ms, IDLE_MS - idle_ms)
        timer = self._wheel.add(now_ms + wait_ms, self._news.set)
        await self._news.wait()
        timer.cancel()

    def _backoff_ms(self) -> int:
        return max(self._services.settings.log_cleaner_backoff_ms, REST_LEAST_MS)

    # Choosing.

    def _next_wanted(self) -> tuple[Log, Candidate] | None:
        for log in list(self._wanted):
            candidate = self._judge(log)
            if candidate is not None and candidate.cleanable_bytes:
                return log, candidate
            self._answer(log, None)
        return None

    async def _dirtiest(self) -> tuple[Log, Candidate] | None:
        clock = self._services.clock
        logs: list[Log] = []
        candidates: list[Candidate] = []
        everything = self._services.logs.all()
        self._forget_all_but(everything)
        end_ms = clock.monotonic_ms() + SLICE_MS
        for log in everything:
            if clock.monotonic_ms() >= end_ms:
                await asyncio.sleep(0)
                end_ms = clock.monotonic_ms() + SLICE_MS
            if not self._set_back.must_wait(log, clock.monotonic_ms()):
                await self._read_times_ahead(log)
                candidate = self._judge(log)
                if candidate is not None:
                    logs.append(log)
                    candidates.append(candidate)
        self._services.metrics.compaction_dirty_ratio_max = max(
            (candidate.dirty_ratio for candidate in candidates), default=0.0
        )
        number = choose(candidates)
        if number is None:
            return None
        # It may have been cut or deleted while the others were looked at.
        candidate = self._judge(logs[number])
        return (logs[number], candidate) if candidate is not None and candidate.is_due else None

    async def _read_times_ahead(self, log: Log) -> None:
        """Thousands of new segments would hold up the loop in `_judge`, which needs their times."""
        if not self._is_compacted(log) or log in self._uncleanable:
            return
        clock = self._services.clock
        end_ms = clock.monotonic_ms() + SLICE_MS
        # Whatever cannot be read is met again by `_judge`, unless it is gone by then.
        with contextlib.suppress(Exception):
            for _ in read_times_ahead(log, self._checkpoint_offset(log), self._times):
                if clock.monotonic_ms() >= end_ms:
                    await asyncio.sleep(0)
                    end_ms = clock.monotonic_ms() + SLICE_MS

    def _forget_all_but(self, logs: Iterable[Log]) -> None:
        """A log that was deleted is another one when it comes back."""
        present = set(logs)
        self._times.keep_only(present)
        self._set_back.keep_only(present)
        for log in [log for log in self._uncleanable if log not in present]:
            del self._uncleanable[log]
        self._services.metrics.compaction_uncleanable_logs = len(self._uncleanable)

    def _judge(self, log: Log) -> Candidate | None:
        """What may be cleaned of a log, None when nothing is or nothing can be known."""
        if not self._is_compacted(log) or log in self._uncleanable:
            return None
        checkpoint_offset = self._checkpoint_offset(log)
        if not has_dirty_segment(log, checkpoint_offset):
            return None
        try:
            facts = facts_of(log, checkpoint_offset, log.last_stable_offset, self._times)
            return judge(facts, now_ms=self._services.clock.now_ms())
        except IndexUnready:
            return None
        except CorruptBatch as error:
            self._give_up(log, str(error))
        except OSError as error:
            self._on_refusal(log, str(error), error.errno)
        except Exception as error:  # one log must not keep the others from being cleaned
            logger.exception("%s cannot be looked at", log.directory)
            self._give_up(log, repr(error))
        return None

    def _is_compacted(self, log: Log) -> bool:
        here = self._services.logs.get(log.topic, log.partition)
        return here is log and not log.is_offline and log.config.cleanup_compact

    def _checkpoint_offset(self, log: Log) -> int | None:
        """Where the last cleaning has ended; put right when the log does not have the offset."""
        directory = self._services.logs.directory_of(log)
        known = directory.cleaner_offsets.get((log.topic, log.partition))
        if not is_checkpoint_void(known, log.log_start_offset, log.end_offset):
            return known
        if not log.config.cleanup_delete:
            logger.warning(
                "%s was cleaned up to %s, which is outside of %d..%d; it is cleaned from its start",
                log.directory,
                known,
                log.log_start_offset,
                log.end_offset,
            )
        directory.note_cleaned(log, log.log_start_offset)
        self._run_jobs(list(directory.checkpoint_cleaner_offsets()))
        return log.log_start_offset

    # Cleaning.

    async def _clean(self, log: Log, candidate: Candidate) -> None:
        services = self._services
        self.log_in_work = log
        self._outcome = CleaningError(f"the cleaning of {log.directory} was given up")
        has_leftovers = True
        try:
            job = job_of(log, candidate, services.settings, services.clock.now_ms())
            answer = await self.worker.clean(
                job, lambda: self._is_compacted(log) and log.cut_count == job.cut_count
            )
            if self._is_stopped:
                return
            has_leftovers = not await self._finish(log, job, answer)
        except CorruptBatch as error:
            self._give_up(log, str(error))
        except WorkerDied as error:
            services.metrics.compaction_worker_deaths += 1
            self._try_again(log, str(error))
        except OSError as error:
            self._on_refusal(log, str(error), error.errno)
        except Exception as error:  # one log must not keep the others from being cleaned
            logger.exception("the cleaning of %s failed", log.directory)
            self._give_up(log, repr(error))
        finally:
            self.log_in_work = None
            self._last_job_ms = services.clock.monotonic_ms()
        if self._is_stopped:
            return
        # When putting into place has failed half-way the next start needs to see what there is.
        if has_leftovers and not log.is_offline:
            await self._clear(log)
        self._answer(log, self._outcome)
        self._on_done(log)

    async def _finish(
        self, log: Log, job: CleaningJob, answer: CleaningResult | CleaningFailure | None
    ) -> bool:
        """True when the cleaned files are in place."""
        is_wanted = self._is_compacted(log) and log.cut_count == job.cut_count
        if isinstance(answer, CleaningFailure) and (
            is_wanted or answer.error_number not in _WHEN_GONE
        ):
            if answer.error_number is None:
                self._give_up(log, answer.reason)
            elif answer.error_number == STARVED:
                await self._hurry(log)
            else:
                self._on_refusal(log, answer.reason, answer.error_number)
            return False
        if isinstance(answer, CleaningFailure) or answer is None or not is_wanted:
            logger.info("%s was cut, or is not compacted any more", log.directory)
            return False
        if not await self._put_in_place(log, job, answer):
            if not self._is_stopped:
                self._try_again(log, "its segments have changed meanwhile")
            return False
        self._on_cleaned(log, job, answer)
        return True

    async def _hurry(self, log: Log) -> None:
        """The log is done over, by a worker that gets its share."""
        logger.info("the cleaning of %s begins anew with a higher priority", log.directory)
        self.worker.is_hurried = True
        await self.worker.kill()

    async def _put_in_place(self, log: Log, job: CleaningJob, result: CleaningResult) -> bool:
        """False when the log, or the broker, does not want it any more."""
        clock = self._services.clock
        end_ms = clock.monotonic_ms() + SLICE_MS
        for group in result.groups:
            if clock.monotonic_ms() >= end_ms:
                await asyncio.sleep(0)
                end_ms = clock.monotonic_ms() + SLICE_MS
            # What was put into place before stays: the records that it has lost lie behind it.
            if self._is_stopped or not self._is_compacted(log):
                return False
            began_ns = monotonic_ns()
            removed = log.replace_segments([group], cut_count=job.cut_count, now_ms=clock.now_ms())
            self._services.loop_watch.ran(began_ns, "putting cleaned segments into place")
            if removed is None:
                return False
            self._upkeep.set_aside(log, removed)
        return True

    def _on_cleaned(self, log: Log, job: CleaningJob, result: CleaningResult) -> None:
        directory = self._services.logs.directory_of(log)
        directory.note_cleaned(log, result.end_offset)
        self._run_jobs(list(directory.checkpoint_cleaner_offsets()))
        self._count(result)
        self._outcome = result
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
        if result.end_offset > job.first_dirty_offset:
            self._set_back.note_success(log)
        else:
            self._try_again(log, "the cleaning got no further")

    def _count(self, result: CleaningResult) -> None:
        metrics = self._services.metrics
        metrics.compactions += 1
        metrics.compaction_read_bytes += result.read_bytes
        metrics.compaction_written_bytes += result.written_bytes
        metrics.compaction_last_ms = result.elapsed_ms

    async def _clear(self, log: Log) -> None:
        """Remove what a cleaning has left that was not put into place."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, remove_leftovers, self._files, log.directory)
        except OSError as error:
            logger.warning("leftovers of a cleaning stay in %s: %s", log.directory, error)

    # Failures.

    def _give_up(self, log: Log, reason: str) -> None:
        """The log cannot be cleaned; Kafka, too, leaves it alone from then on."""
        self._uncleanable[log] = reason
        self._services.metrics.compaction_uncleanable_logs = len(self._uncleanable)
        self._outcome = CleaningError(f"{log.directory} cannot be cleaned: {reason}")
        logger.error("%s cannot be cleaned and is left alone: %s", log.directory, reason)

    def _on_refusal(self, log: Log, reason: str, error_number: int | None) -> None:
        """The disk or the system has refused."""
        error = OSError(error_number or 0, reason)
        # Differs from Kafka: a full disk does not take the directory offline.
        if error_number is None or error_number in _PASSES or is_temporary(error):
            self._try_again(log, reason)
            return
        manager = self._services.logs
        try:
            manager.take_offline(manager.directory_of(log), error)
        except NoDirectoryLeft as nothing_left:
            self._on_fatal(str(nothing_left))

    def _try_again(self, log: Log, reason: str) -> None:
        wait_ms = self._set_back.note_failure(
            log, self._services.clock.monotonic_ms(), first_wait_ms=self._backoff_ms()
        )
        self._outcome = CleaningError(f"{log.directory} was not cleaned: {reason}")
        logger.warning(
            "%s was not cleaned, the next attempt comes in %.1f s or later: %s",
            log.directory,
            wait_ms / 1000,
            reason,
        )

    def _answer(self, log: Log, outcome: CleaningResult | CleaningError | None) -> None:
        """Tell whoever has asked for a cleaning."""
        answer = self._wanted.pop(log, None)
        if answer is None or answer.done():
            return
        if isinstance(outcome, CleaningError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
