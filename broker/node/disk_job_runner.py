"""Runs disk jobs in threads, and on the loop what has waited for their ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic_ns

from odradek.broker.node.directory_failures import DirectoryFailures
from odradek.broker.node.platform import Platform
from odradek.broker.replication.partitions import Partitions
from odradek.storage.directories.disk_jobs import DiskJob, FlushLog, Removal
from odradek.storage.directories.log_manager import NoDirectoryLeft
from odradek.storage.directories.upkeep import Upkeep
from odradek.storage.files.disk_errors import is_out_of_descriptors, is_temporary
from odradek.storage.files.names import parse_folder_name
from odradek.storage.log.log import Log
from odradek.storage.segments.index_rebuild import IndexRebuild
from odradek.storage.segments.segment import Segment

logger = logging.getLogger("odradek.background")


class DiskJobRunner:
    """The disk jobs of one node."""

    def __init__(
        self,
        platform: Platform,
        upkeep: Upkeep,
        partitions: Partitions,
        failures: DirectoryFailures,
    ) -> None:
        self._platform = platform
        self._purgatory = platform.purgatory
        self._upkeep = upkeep
        self._partitions = partitions
        self._failures = failures
        self._to_flush: dict[Log, None] = {}
        """Logs that `flush_soon` was called for in this pass of the loop."""
        self.flushes = 0
        """Flushes of logs that have ended."""
        self.flush_ns = 0
        """How long they took, with the wait for a thread."""
        self._running = 0
        self._is_stopped = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_running(self) -> bool:
        """Whether disk jobs have not ended."""
        return self._running > 0

    def run(self, jobs: Sequence[DiskJob]) -> None:
        """Run disk jobs in a thread, in order."""
        if jobs:
            self._running += 1
            self._idle.clear()
            self._platform.supervisor.start("disk jobs", self._run(list(jobs)))

    def in_thread(self, name: str, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Run `work` in a thread, then `done` on the loop; neither raises."""
        platform = self._platform

        async def run() -> None:
            await platform.loop.run_in_executor(platform.executor, work)
            began_ns = monotonic_ns()
            done()
            platform.loop_watch.ran(began_ns, name)

        platform.supervisor.start(name, run())

    def search(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """`in_thread` for searches by time."""
        self.in_thread("a search by time", work, done)

    def rebuild_index(self, segment: Segment, reason: str) -> None:
        """Rebuild the index files of a segment."""
        self.run([IndexRebuild(segment, reason)])

    def stop(self) -> None:
        """Begin no flush and no removal of files any more."""
        self._is_stopped = True

    async def finish(self) -> None:
        """Wait for the disk jobs under way."""
        await self._idle.wait()

    # Flushes that responses wait for.

    def flush_soon(self, log: Log) -> None:
        """Begin a flush after this pass of the loop: it includes what other connections append
        in it."""
        if not self._to_flush:
            self._platform.loop.call_soon(self._flush_awaited)
        self._to_flush[log] = None

    def _flush_awaited(self) -> None:
        logs, self._to_flush = self._to_flush, {}
        if self._is_stopped:
            # The connections are closed, and the stop flushes every log.
            return
        for log in logs:
            job = self._upkeep.flush_log(log, now_ms=self._platform.clock.now_ms())
            if job is not None:
                self.run([job])
            else:
                # On disk already, or a flush is under way: `_on_flushed` begins the next one.
                self._release(log)
        self._purgatory.run_notified()

    def _on_flushed(self, log: Log) -> None:
        """A flush has succeeded or failed."""
        self._release(log)
        if log.awaited_flush.held_from is not None and not log.is_offline:
            self.flush_soon(log)
        self._purgatory.run_notified()

    def _release(self, log: Log) -> None:
        """Move the high watermark and retry the requests that wait for it or for the flush."""
        partition = self._partitions.get(log.topic, log.partition)
        if partition is not None and partition.log is log:
            partition.update_high_watermark()
            self._purgatory.notify(partition)

    # The jobs.

    async def _run(self, jobs: list[DiskJob]) -> None:
        platform = self._platform
        try:
            for job in jobs:
                # A stop does not wait for thousands of files: the next start removes them.
                if self._is_stopped and isinstance(job, Removal):
                    continue
                failure: OSError | None = None
                started_ns = monotonic_ns()
                try:
                    await platform.loop.run_in_executor(platform.executor, job.run, platform.files)
                except OSError as error:
                    failure = error
                began_ns = monotonic_ns()
                if isinstance(job, FlushLog):
                    self.flushes += 1
                    self.flush_ns += began_ns - started_ns
                jobs.extend(self._finish(job, failure))
                platform.loop_watch.ran(began_ns, f"the end of {type(job).__name__}")
        except NoDirectoryLeft as error:
            platform.on_fatal(str(error))
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _finish(self, job: DiskJob, failure: OSError | None) -> Sequence[DiskJob]:
        """Handle the end of a job.

        returns  the jobs that must run next
        raises   NoDirectoryLeft
        """
        more: Sequence[DiskJob] = ()
        if failure is not None:
            if not is_temporary(failure):  # Upkeep reports those.
                logger.error("%s of %s failed: %s", type(job).__name__, job.path, failure)
            self._upkeep.on_failed(job, failure)
            if is_out_of_descriptors(failure):
                return ()  # The next round tries it again.
            self._failures.handle()
        else:
            more = self._upkeep.on_finished(job)
        if isinstance(job, FlushLog):
            self._on_flushed(job.log)
        elif isinstance(job, IndexRebuild):
            self._on_rebuilt(job)
        return more

    def _on_rebuilt(self, job: IndexRebuild) -> None:
        folder = parse_folder_name(job.segment.directory.rpartition("/")[2])
        if folder is not None:
            partition = self._partitions.get(folder.topic, folder.partition)
            if partition is not None:
                self._purgatory.notify(partition)
                self._purgatory.notify(partition.log_end_key)
                self._purgatory.run_notified()
