"""What a node does again and again: retention, flushes, checkpoints, removals, idle connections.

Rounds run on the loop and are short; disk jobs that they bring run in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import wraps
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from odradek.broker.server.socket_server import SocketServer
from odradek.broker.services import Services
from odradek.runtime.files import FileSystem
from odradek.runtime.tasks import Supervisor
from odradek.runtime.wheel_driver import WheelDriver
from odradek.storage.directories.disk_jobs import DiskJob, FlushLog, Removal
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.directories.upkeep import RetentionRound, Upkeep
from odradek.storage.files.disk_errors import is_out_of_descriptors, is_temporary
from odradek.storage.files.names import parse_folder_name
from odradek.storage.log.log import Log
from odradek.storage.segments.index_rebuild import IndexRebuild
from odradek.storage.segments.segment import Segment

if TYPE_CHECKING:
    from odradek.broker.compaction.compaction import Compaction

TICK_MS: Final = 1_000
SLICE_MS: Final = 2
"""How long a round of retention may keep the loop from its clients."""
END: Final = object()
IDLE_CHECK_MS: Final = 5_000
LAG_PROBE_MS: Final = 250
LONG_MS: Final = 24 * 3_600_000

logger = logging.getLogger("odradek.background")


def _probe_lag() -> None:
    """That a timer is due now and then is enough: the wheel looks how late it is."""


class Background:
    """The rounds of one node.

    on_fatal  told why the broker cannot go on
    """

    def __init__(
        self,
        services: Services,
        *,
        loop: asyncio.AbstractEventLoop,
        files: FileSystem,
        executor: Executor,
        supervisor: Supervisor,
        wheel: WheelDriver,
        server: SocketServer,
        on_fatal: Callable[[str], None],
    ) -> None:
        self._services = services
        self._loop = loop
        self._files = files
        self._executor = executor
        self._supervisor = supervisor
        self._wheel = wheel
        self._server = server
        self._on_fatal = on_fatal
        self._upkeep: Upkeep | None = None
        self._compaction: Compaction | None = None
        self._unretained: dict[Log, None] = {}
        """Logs that retention has passed over because they were being cleaned."""
        self._to_flush: dict[Log, None] = {}
        """Logs that `flush_soon` was called for in this pass of the loop."""
        self._retention: Iterator[None] | None = None
        """What is left of the round under way."""
        self.on_tick: Callable[[], None] = lambda: None
        """More that is to be done once a second."""
        self._running = 0
        self._is_stopped = False
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Begin the rounds; the logs are loaded."""
        settings = self._services.settings
        self._upkeep = Upkeep(self._services.logs)
        self._services.logs.descriptors.rebuild_later = self._rebuild_indexes
        self._every(settings.log_retention_check_interval_ms, self._retain)
        self._every(settings.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        self._every(
            settings.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks
        )
        self._every(settings.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every(TICK_MS, self._tick)
        # After an unclean stop the recovery points on disk may lie behind what was checked.
        self._checkpoint()
        self._every(IDLE_CHECK_MS, self._close_idle)
        self._every(LAG_PROBE_MS, _probe_lag)

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        @wraps(work)
        def guarded() -> None:
            if self._is_stopped:
                return
            try:
                work()
            except NoDirectoryLeft as error:
                self._on_fatal(str(error))

        self._wheel.every(min(interval_ms, LONG_MS), guarded)

    @property
    def upkeep(self) -> Upkeep:
        """The storage's rounds."""
        assert self._upkeep is not None, "the rounds have begun"
        return self._upkeep

    # Compaction.

    @property
    def compaction(self) -> Compaction:
        """The cleaner of compacted logs, at work from the first use on."""
        if self._compaction is None:
            # Imported when there is something to clean: most nodes never need it.
            from odradek.broker.compaction.compaction import Compaction

            self._compaction = Compaction(
                self._services,
                files=self._files,
                executor=self._executor,
                wheel=self._wheel,
                upkeep=self.upkeep,
                run_jobs=self.run_jobs,
                on_fatal=self._on_fatal,
                on_done=self._retain_after_cleaning,
            )
            if self._services.settings.log_cleaner_enable:
                self._compaction.start(self._supervisor)
        return self._compaction

    def on_settings_changed(self) -> None:
        """The broker's settings have changed."""
        if self._compaction is not None:
            self._compaction.on_settings_changed()

    def _look_for_compacted_logs(self) -> None:
        if self._compaction is None and self._services.settings.log_cleaner_enable:
            logs = self._services.logs.all()
            if any(log.config.cleanup_compact and len(log.segments) > 1 for log in logs):
                self.compaction.wake()

    # Retention.

    def _retain(self) -> None:
        if self._retention is None:
            self._begin_retention(self._services.logs.all())

    def _retain_after_cleaning(self, log: Log) -> None:
        if log in self._unretained and self._retention is None:
            del self._unretained[log]
            self._begin_retention([log])

    def _is_free(self, log: Log) -> bool:
        """What is put into place at the end of a cleaning must find the segments it was made of."""
        if self._compaction is None or self._compaction.log_in_work is not log:
            self._unretained.pop(log, None)
            return True
        self._unretained[log] = None
        return False

    def _begin_retention(self, logs: Sequence[Log]) -> None:
        """A round over the logs, in slices between which the loop serves its clients."""
        done = RetentionRound()
        steps = self.upkeep.retention_steps(
            done,
            now_ms=self._services.clock.now_ms(),
            logs=logs,
            is_free=self._is_free,
        )
        self._go_on_with_retention(steps, done)

    def _go_on_with_retention(self, steps: Iterator[None], done: RetentionRound) -> None:
        clock, began_ns = self._services.clock, monotonic_ns()
        end_ms = clock.monotonic_ms() + SLICE_MS
        self._retention = None
        try:
            while not self._is_stopped and next(steps, END) is not END:
                if clock.monotonic_ms() >= end_ms:
                    self._retention = steps
                    self._loop.call_soon(lambda: self._go_on_with_retention(steps, done))
                    self._services.loop_watch.ran(began_ns, "retention")
                    return
        except NoDirectoryLeft as error:
            self._on_fatal(str(error))
        for name in done.damaged:
            logger.error("%s has a damaged segment; retention leaves it alone", name)

    # Indexes.

    def _rebuild_indexes(self, segment: Segment, reason: str) -> None:
        self.run_jobs([IndexRebuild(segment, reason)])

    def _on_rebuilt(self, job: IndexRebuild) -> None:
        folder = parse_folder_name(job.segment.directory.rpartition("/")[2])
        if folder is not None:
            partition = self._services.partitions.get(folder.topic, folder.partition)
            if partition is not None:
                self._services.purgatory.notify(partition)
                self._services.purgatory.run_notified()

    # Flushes and checkpoints.

    def flush_soon(self, log: Log) -> None:
        """Begin a flush that responses wait for, after this pass of the loop: it includes what
        other connections append in it."""
        if not self._to_flush:
            self._loop.call_soon(self._flush_awaited)
        self._to_flush[log] = None

    def _flush_awaited(self) -> None:
        logs, self._to_flush = self._to_flush, {}
        if self._is_stopped:
            # The connections are closed, and the stop flushes every log.
            return
        for log in logs:
            job = self.upkeep.flush_log(log, now_ms=self._services.clock.now_ms())
            if job is not None:
                self.run_jobs([job])
            else:
                # On disk already, or a flush is under way: `_on_flushed` begins the next one.
                self._release(log)
        self._services.purgatory.run_notified()

    def _on_flushed(self, log: Log) -> None:
        """A flush has succeeded or failed."""
        self._release(log)
        if log.awaited_flush.held_from is not None and not log.is_offline:
            self.flush_soon(log)
        self._services.purgatory.run_notified()

    def _release(self, log: Log) -> None:
        """Move the high watermark and retry the requests that wait for it or for the flush."""
        partition = self._services.partitions.get(log.topic, log.partition)
        if partition is not None and partition.log is log:
            partition.update_high_watermark()
            self._services.purgatory.notify(partition)

    def _checkpoint(self) -> None:
        self.run_jobs(list(self.upkeep.checkpoint()))

    def _checkpoint_high_watermarks(self) -> None:
        self.run_jobs(list(self.upkeep.checkpoint_high_watermarks()))

    def _expire_producers(self) -> None:
        self.upkeep.expire_producers(now_ms=self._services.clock.now_ms())

    def _tick(self) -> None:
        now_ms = self._services.clock.now_ms()
        self.run_jobs(list(self.upkeep.remove(now_ms=now_ms)))
        # By flush.ms, and what a closed segment has left unsynced.
        self.run_jobs(list(self.upkeep.flush(now_ms=now_ms)))
        self._look_for_compacted_logs()
        self._services.controller.tick()
        self.on_tick()
        self._server.windows.drop_idle()
        self._server.evict_idle()
        self._report_failures()

    def _report_failures(self) -> None:
        failures = self._services.logs.take_failures()
        for failure in failures:
            logger.error(
                "directory %s is offline with %d partitions: %s",
                failure.path,
                len(failure.partitions),
                failure.reason,
            )
            self._services.metrics.storage_errors += 1
            for topic, index in failure.partitions:
                partition = self._services.partitions.get(topic, index)
                if partition is not None:
                    partition.log.is_offline = True
                    self._services.purgatory.notify(partition)
        if failures:
            self._services.controller.report_log_directories()

    def _close_idle(self) -> None:
        idle_max_ms = self._services.settings.connections_max_idle_ms
        if idle_max_ms > 0:
            self._server.close_idle(idle_max_ms)

    def run_jobs(self, jobs: Sequence[DiskJob]) -> None:
        """Run disk jobs in a thread, in order, and report each back."""
        if jobs:
            self._running += 1
            self._idle.clear()
            self._supervisor.start("disk jobs", self._run(list(jobs)))

    def in_thread(self, name: str, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run `work` in a thread, then `done` on the loop; neither raises."""

        async def run() -> None:
            await self._loop.run_in_executor(self._executor, work)
            began_ns = monotonic_ns()
            done()
            self._services.loop_watch.ran(began_ns, name)

        self._supervisor.start(name, run())

    async def _run(self, jobs: list[DiskJob]) -> None:
        try:
            for job in jobs:
                # A stop does not wait for thousands of files: the next start removes them.
                if self._is_stopped and isinstance(job, Removal):
                    continue
                failure: OSError | None = None
                try:
                    await self._loop.run_in_executor(self._executor, job.run, self._files)
                except OSError as error:
                    failure = error
                began_ns = monotonic_ns()
                jobs.extend(self._finish(job, failure))
                self._services.loop_watch.ran(began_ns, f"the end of {type(job).__name__}")
        except NoDirectoryLeft as error:
            self._on_fatal(str(error))
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _finish(self, job: DiskJob, failure: OSError | None) -> Sequence[DiskJob]:
        """What has to be done next because of a job; raises NoDirectoryLeft."""
        more: Sequence[DiskJob] = ()
        if failure is not None:
            level = logging.WARNING if is_temporary(failure) else logging.ERROR
            logger.log(level, "%s failed: %s", type(job).__name__, failure)
            self.upkeep.on_failed(job, failure)
            if is_out_of_descriptors(failure):
                return ()  # The next round tries it again.
            self._report_failures()
        else:
            more = self.upkeep.on_finished(job)
        if isinstance(job, FlushLog):
            self._on_flushed(job.log)
        elif isinstance(job, IndexRebuild):
            self._on_rebuilt(job)
        return more

    def stop(self) -> None:
        """Begin no more rounds."""
        self._is_stopped = True
        if self._compaction is not None:
            self._compaction.stop()

    async def finish(self) -> None:
        """Wait for the disk jobs under way."""
        await self._idle.wait()
