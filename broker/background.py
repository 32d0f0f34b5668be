"""What a node does again and again: retention, flushes, checkpoints, removals, idle connections.

Rounds run on the loop and are short; disk jobs that they bring run in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from broker.server.listener import SocketServer
from broker.services import Services
from runtime.files import FileSystem
from runtime.tasks import Supervisor
from runtime.wheel_driver import WheelDriver
from storage.checkpoint import TopicPartition
from storage.disk_jobs import DiskJob, Removal
from storage.log import Log
from storage.manager import NoDirectoryLeft
from storage.upkeep import Upkeep

if TYPE_CHECKING:
    from broker.compaction.compaction import Compaction

TICK_MS: Final = 1_000
IDLE_CHECK_MS: Final = 5_000
LONG_MS: Final = 24 * 3_600_000

logger = logging.getLogger("odradek.background")


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
        self._every(settings.log_retention_check_interval_ms, self._retain)
        self._every(settings.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        self._every(
            settings.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks
        )
        self._every(settings.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every(TICK_MS, self._tick)
        self._services.appends.on_flush_due = self._flush_soon
        # After an unclean stop the recovery points on disk may lie behind what was checked.
        self._checkpoint()
        self._every(IDLE_CHECK_MS, self._close_idle)

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
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
            from broker.compaction.compaction import Compaction

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

    def _high_watermark(self, log: Log) -> int:
        partition = self._services.partitions.get(log.topic, log.partition)
        if partition is None:
            return self._services.logs.high_watermark(log.topic, log.partition)
        return partition.high_watermark

    def _retain(self) -> None:
        logs = self._services.logs.all()
        # What is put into place at the end of a cleaning must find the segments it was made of.
        in_work = None if self._compaction is None else self._compaction.log_in_work
        if in_work is not None:
            self._unretained[in_work] = None
        self._retain_some([log for log in logs if log is not in_work])

    def _retain_after_cleaning(self, log: Log) -> None:
        if log in self._unretained:
            del self._unretained[log]
            if self._services.logs.get(log.topic, log.partition) is log:
                self._retain_some([log])

    def _retain_some(self, logs: Sequence[Log]) -> None:
        done = self.upkeep.delete_old_segments(
            self._high_watermark, now_ms=self._services.clock.now_ms(), logs=logs
        )
        if done.deletion_count:
            logger.info("retention set segments of %d logs aside", done.deletion_count)
        for name in done.damaged:
            logger.error("%s has a damaged segment; retention leaves it alone", name)

    def _flush_soon(self, log: Log) -> None:
        job = self.upkeep.flush_log(log, now_ms=self._services.clock.now_ms())
        if job is not None:
            self.run_jobs([job])

    def _checkpoint(self) -> None:
        self.run_jobs(list(self.upkeep.checkpoint()))

    def _checkpoint_high_watermarks(self) -> None:
        current: dict[TopicPartition, int] = {
            (partition.topic, partition.index): partition.high_watermark
            for partition in self._services.partitions.all()
        }
        self.run_jobs(list(self.upkeep.checkpoint_high_watermarks(current)))

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
        self._report_failures()

    def _report_failures(self) -> None:
        for failure in self._services.logs.take_failures():
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

    async def _run(self, jobs: list[DiskJob]) -> None:
        try:
            for job in jobs:
                # A stop does not wait for thousands of files: the next start removes them.
                if self._is_stopped and isinstance(job, Removal):
                    continue
                try:
                    await self._loop.run_in_executor(self._executor, job.run, self._files)
                except OSError as error:
                    logger.error("%s failed: %s", type(job).__name__, error)
                    self.upkeep.on_failed(job, error)
                else:
                    jobs.extend(self.upkeep.on_finished(job))
        except NoDirectoryLeft as error:
            self._on_fatal(str(error))
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def stop(self) -> None:
        """Begin no more rounds."""
        self._is_stopped = True
        if self._compaction is not None:
            self._compaction.stop()

    async def finish(self) -> None:
        """Wait for the disk jobs under way."""
        await self._idle.wait()
