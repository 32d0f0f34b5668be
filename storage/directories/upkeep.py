"""Recurring work on logs: retention, flushes, checkpoints, removals.

Each round decides what is due and returns jobs (`storage/directories/disk_jobs`).  The caller runs
them in a thread and reports every one through `on_finished` or `on_failed`.

    round                      period, a setting of the broker
    retention_steps            log.retention.check.interval.ms
    flush                      log.flush.scheduler.interval.ms, and when a segment was closed
    checkpoint                 log.flush.offset.checkpoint.interval.ms
    checkpoint_high_watermarks replica.high.watermark.checkpoint.interval.ms
    remove                     once a second
    expire_producers           producer.id.expiration.check.interval.ms

Source: Kafka's LogManager.cleanupLogs, flushDirtyLogs, checkpointLogRecoveryOffsets, deleteLogs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.storage.directories.disk_jobs import (
    DiskJob,
    FinishTruncation,
    FlushLog,
    Removal,
    RemoveFiles,
    RemoveFolder,
    SyncDeletion,
    SyncNewFolders,
    WriteCheckpoint,
)
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.directories.truncation import Truncations
from odradek.storage.events import StorageEvent
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.disk_errors import is_out_of_descriptors, is_temporary
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.log import Log, RemovedFiles
from odradek.storage.log.retention import delete_old_segments
from odradek.storage.segments.index_rebuild import IndexRebuild

SEGMENTS_PER_STEP: Final = 32


class Upkeep:
    """The rounds over all logs of a manager; any of them may raise `NoDirectoryLeft`."""

    def __init__(self, manager: LogManager) -> None:
        """`manager` has loaded its logs."""
        self._manager = manager
        self._flushing: dict[Log, FlushLog] = {}
        self.truncations = Truncations(manager)

    # Retention.

    def retention_steps(
        self,
        damaged: list[str],
        *,
        now_ms: int,
        logs: Sequence[Log] | None = None,
        is_free: Callable[[Log], bool] = lambda log: True,
    ) -> Iterator[None]:
        """Take out the segments that retention does not keep; `remove` returns them when due.

        damaged  grows by a line for each log that is skipped since a segment of it is damaged
        logs     those to look at, all of them when None
        is_free  asked before each step whether segments of the log may be deleted
        cost     1 ms a step; anything may happen to the logs between two of them
        """
        manager = self._manager
        for log in manager.all() if logs is None else logs:
            while manager.has(log) and is_free(log):
                self._check_health(log)
                try:
                    removed = delete_old_segments(log, now_ms=now_ms, count_max=SEGMENTS_PER_STEP)
                except OSError as error:
                    # What it would free was not worth the directory; the next round sees it again.
                    if not is_temporary(error):
                        manager.take_offline(manager.directory_of(log), error)
                    break
                except CorruptBatch as error:
                    damaged.append(f"{log.directory}: {error}")
                    break
                except IndexUnready:
                    # They are being rebuilt; the next round goes on here.
                    break
                self.set_aside(log, removed)
                if not removed:
                    break
                yield
            yield

    def set_aside(self, log: Log, removed: Sequence[RemovedFiles]) -> None:
        """Segments were taken out of a log; their files are removed when due."""
        manager = self._manager
        directory = manager.directory_of(log)
        for files in removed:
            job = RemoveFiles(directory.path, files.paths)
            manager.removals.add(files.remove_at_ms, job)
            directory.note_renamed_segments(log)

    def remove(self, *, now_ms: int) -> list[Removal]:
        """The files and folders that are due to be removed."""
        return self._manager.removals.take_due(now_ms)

    # Flushes.

    def flush(self, *, now_ms: int) -> list[FlushLog]:
        """The logs that flush.messages, flush.ms or a closed segment make due.

        A log that is being flushed is skipped until the next round.
        """
        jobs = (
            self.flush_log(log, now_ms=now_ms)
            for log in self._healthy_logs()
            if log.flush_state.is_due(log.end_offset, log.config, now_ms)
        )
        return [job for job in jobs if job is not None]

    def flush_log(self, log: Log, *, now_ms: int) -> FlushLog | None:
        """The flush of one log, due or not; None when one is under way or all is on disk."""
        if log in self._flushing or log.is_offline:
            return None
        flush = log.flush_state.prepare(log.end_offset, now_ms)
        if not flush.paths and not flush.is_folder_changed:
            log.mark_flushed(flush.end_offset)
            return None
        directory = self._manager.directory_of(log)
        is_new = log.directory in directory.new_folders
        job = FlushLog(directory.path, log, flush, log.flush_state.started_at, is_new)
        self._flushing[log] = job
        return job

    def is_flushing(self, log: Log) -> bool:
        """Whether a flush of the log is under way."""
        return log in self._flushing

    # Checkpoints.

    def checkpoint(self) -> list[SyncNewFolders | WriteCheckpoint]:
        """Recovery points and log starts, as far as they changed since they were written; before
        them, new folders that could not be synced."""
        return [
            *self._manager.sync_new_folders(),
            *(job for directory in self._manager.online() for job in directory.checkpoints()),
        ]

    def checkpoint_high_watermarks(self) -> list[WriteCheckpoint]:
        """The high watermarks, as far as they changed since they were written."""
        return [
            job
            for directory in self._manager.online()
            for job in directory.checkpoint_high_watermarks()
        ]

    # Producers.

    def expire_producers(self, *, now_ms: int) -> int:
        """Forget producers that have been idle for producer.id.expiration.ms; how many."""
        return sum(
            log.producer_states.expire(now_ms, log.config.producer_id_expiration_ms)
            for log in self._manager.all()
        )

    def _healthy_logs(self) -> Iterator[Log]:
        """The logs that are online; the directory of one that has failed goes offline."""
        for log in self._manager.all():
            self._check_health(log)
            if not log.is_offline:
                yield log

    def _check_health(self, log: Log) -> None:
        """Take the directory of a failed log offline; raises NoDirectoryLeft."""
        directory = self._manager.directory_of(log)
        if directory.is_online and log.is_offline:
            self._manager.take_offline(directory, OSError(f"{log.directory} has failed"))

    # What became of the jobs.

    def on_finished(self, job: DiskJob) -> Sequence[DiskJob]:
        """A job is done.

        returns  what has to be done next because of it
        """
        if isinstance(job, IndexRebuild):
            return self._on_rebuilt(job)
        if isinstance(job, FinishTruncation):
            return self._on_truncated(job)
        if isinstance(job, FlushLog):
            del self._flushing[job.log]
            # A truncation during the flush may have been followed by appends of other records at
            # the same offsets; then `FlushState.started_at` has changed.
            if not job.log.is_offline and job.log.flush_state.started_at == job.started_at:
                job.log.mark_flushed(job.flush.end_offset)
        elif isinstance(job, WriteCheckpoint):
            directory = self._manager.directories[job.directory]
            if directory.is_online:
                return directory.on_written(job)
        elif isinstance(job, SyncNewFolders):
            self._manager.directories[job.directory].on_folders_synced(job)
        elif isinstance(job, SyncDeletion):
            directory = self._manager.directories[job.directory]
            job.ended(job.directory, is_durable=directory.is_online)
            # They must not name the deleted partitions much longer.
            return directory.checkpoints() if directory.is_online else []
        return []

    def _on_truncated(self, job: FinishTruncation) -> Sequence[DiskJob]:
        try:
            return self.truncations.on_finished(job)
        except OSError as error:
            self.on_failed(job, error)
        return []

    def _on_rebuilt(self, job: IndexRebuild) -> Sequence[DiskJob]:
        try:
            if not job.finish(self._manager.files):
                return [job]
        except OSError as error:
            self.on_failed(job, error)
        return []

    def on_failed(self, job: DiskJob, error: OSError) -> None:
        """A job has failed: its directory goes offline, nothing is retried.

        Only what was not begun is done by the next round: a checkpoint on a full disk (the former
        file is as it was), and all jobs that found no descriptor to open a file.
        """
        manager = self._manager
        directory = manager.directories[job.directory]
        if isinstance(job, FlushLog):
            del self._flushing[job.log]
        if isinstance(job, IndexRebuild):
            job.give_up()
        if isinstance(job, SyncDeletion):
            self._on_deletion_not_synced(job, error)
            return
        if is_temporary(error):
            # Reported each time; the receiver limits repeats of the same event.
            manager.descriptors.report(StorageEvent(job.path, f"not done, tried again: {error}"))
        if isinstance(job, IndexRebuild) and is_temporary(error):
            # The next lookup has it tried again.
            return
        if isinstance(job, WriteCheckpoint) and is_temporary(error):
            if directory.is_online:
                directory.on_not_written(job)
        elif not is_out_of_descriptors(error):
            manager.take_offline(directory, error)
            if isinstance(job, FinishTruncation):
                self.truncations.on_failed(job.log)
        elif isinstance(job, FinishTruncation):
            self.truncations.postpone(job)
        elif isinstance(job, FlushLog):
            job.log.flush_state.postpone()
        elif isinstance(job, SyncNewFolders):
            directory.on_folders_not_synced(job)
        elif isinstance(job, RemoveFolder | RemoveFiles) and directory.is_online:
            manager.removals.add(0, job)

    def _on_deletion_not_synced(self, job: SyncDeletion, error: OSError) -> None:
        directory = self._manager.directories[job.directory]
        is_left_out = is_out_of_descriptors(error)
        try:
            if is_left_out:
                directory.note_unsynced(directory.path)
            else:
                self._manager.take_offline(directory, error)
        finally:
            job.ended(job.directory, is_durable=is_left_out and directory.is_online)
