"""What comes up again and again while logs are in use: retention, flushes, checkpoints, removals.

Each round decides what is due and returns jobs (`storage/disk_jobs`).  Whoever drives it runs them
in a thread and reports every one through `on_finished` or `on_failed`.

    round                      period, a setting of the broker
    delete_old_segments        log.retention.check.interval.ms
    flush                      log.flush.scheduler.interval.ms, and when a segment was closed
    checkpoint                 log.flush.offset.checkpoint.interval.ms
    checkpoint_high_watermarks replica.high.watermark.checkpoint.interval.ms
    remove                     when `next_removal_ms` has come
    expire_producers           producer.id.expiration.check.interval.ms

Source: Kafka's LogManager.cleanupLogs, flushDirtyLogs, checkpointLogRecoveryOffsets, deleteLogs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from storage.batch_scan import CorruptBatch
from storage.checkpoint import TopicPartition
from storage.disk_full import is_full
from storage.disk_jobs import DiskJob, FlushLog, Removal, RemoveFiles, WriteCheckpoint
from storage.log import Log
from storage.log_truncate import RemovedFiles
from storage.manager import LogManager


@dataclass(frozen=True, slots=True)
class RetentionRound:
    """What retention did."""

    deletion_count: int
    """How often segments were set aside, each time one or more of a log."""
    damaged: tuple[str, ...]
    """Logs that were left alone, because a segment is damaged; for the operator."""


class Upkeep:
    """The rounds over all logs of a manager; any of them may raise `NoDirectoryLeft`."""

    def __init__(self, manager: LogManager) -> None:
        """`manager` has loaded its logs."""
        self._manager = manager
        self._flushing: dict[Log, FlushLog] = {}

    # Retention.

    def delete_old_segments(
        self,
        high_watermark_of: Callable[[Log], int],
        *,
        now_ms: int,
        logs: Sequence[Log] | None = None,
    ) -> RetentionRound:
        """Set aside the segments that retention does not keep; `remove` gives them when due.

        high_watermark_of  nothing above it is deleted; of a log that no replica has taken up yet
                           `LogManager.high_watermark`
        logs               those to look at, all of them when None
        """
        manager = self._manager
        count = 0
        damaged: list[str] = []
        for log in self._healthy_logs(logs):
            try:
                removed = log.delete_old_segments(
                    now_ms=now_ms, high_watermark=high_watermark_of(log)
                )
            except OSError as error:
                manager.take_offline(manager.directory_of(log), error)
                continue
            except CorruptBatch as error:
                damaged.append(f"{log.directory}: {error}")
                continue
            self.set_aside(log, removed)
            count += len(removed)
        return RetentionRound(count, tuple(damaged))

    def set_aside(self, log: Log, removed: Sequence[RemovedFiles]) -> None:
        """Segments were taken out of a log; their files go when it is time."""
        manager = self._manager
        directory = manager.directory_of(log)
        for files in removed:
            job = RemoveFiles(directory.path, files.paths)
            manager.removals.append((files.remove_at_ms, job))
            directory.note_renamed_segments(log)

    def next_removal_ms(self) -> int | None:
        """When `remove` has something to give, None when nothing is set aside."""
        return min((due_ms for due_ms, _ in self._manager.removals), default=None)

    def remove(self, *, now_ms: int) -> list[Removal]:
        """The files and folders whose time has come."""
        manager = self._manager
        due = [job for due_ms, job in manager.removals if due_ms <= now_ms]
        if due:
            manager.removals = [waiting for waiting in manager.removals if waiting[0] > now_ms]
        return due

    # Flushes.

    def flush(self, *, now_ms: int) -> list[FlushLog]:
        """The logs that flush.messages, flush.ms or a closed segment make due.

        A log whose flush is under way is passed over; the next round sees it again.
        """
        jobs = (
            self.flush_log(log, now_ms=now_ms)
            for log in self._healthy_logs()
            if log.is_flush_due(now_ms=now_ms)
        )
        return [job for job in jobs if job is not None]

    def flush_log(self, log: Log, *, now_ms: int) -> FlushLog | None:
        """The flush of one log, due or not; None when one is under way or all is on disk."""
        if log in self._flushing or log.is_offline:
            return None
        flush = log.prepare_flush(now_ms=now_ms)
        if not flush.paths and not flush.is_folder_changed:
            log.mark_flushed(flush.end_offset)
            return None
        job = FlushLog(self._manager.directory_of(log).path, log, flush, log.flush_begun_at)
        self._flushing[log] = job
        return job

    # Checkpoints.

    def checkpoint(self) -> list[WriteCheckpoint]:
        """Recovery points and log starts, as far as they changed since they were written."""
        return [job for directory in self._manager.online() for job in directory.checkpoints()]

    def checkpoint_high_watermarks(
        self, high_watermarks: Mapping[TopicPartition, int]
    ) -> list[WriteCheckpoint]:
        """The high watermarks, as far as they changed since they were written.

        high_watermarks  of the partitions that the broker runs; the others keep their former ones
        """
        return [
            job
            for directory in self._manager.online()
            for job in directory.checkpoint_high_watermarks(high_watermarks)
        ]

    # Producers.

    def expire_producers(self, *, now_ms: int) -> int:
        """Forget producers that have been idle for producer.id.expiration.ms; how many."""
        return sum(
            log.producer_states.expire(now_ms, log.config.producer_id_expiration_ms)
            for log in self._manager.all()
        )

    def _healthy_logs(self, logs: Sequence[Log] | None = None) -> Iterator[Log]:
        """The logs in use; one that a failing disk has made useless takes its directory along."""
        manager = self._manager
        for log in manager.all() if logs is None else logs:
            directory = manager.directory_of(log)
            if directory.is_online and log.is_offline:
                manager.take_offline(directory, OSError(f"{log.directory} has failed"))
            if not log.is_offline:
                yield log

    # What became of the jobs.

    def on_finished(self, job: DiskJob) -> list[WriteCheckpoint]:
        """A job is done.

        returns  what has to be done next because of it
        """
        if isinstance(job, FlushLog):
            del self._flushing[job.log]
            # A cut meanwhile may have been followed by appends at offsets that the flush has seen
            # otherwise; `flush_begun_at` tells of it.
            if not job.log.is_offline and job.log.flush_begun_at == job.begun_at:
                job.log.mark_flushed(job.flush.end_offset)
        elif isinstance(job, WriteCheckpoint):
            directory = self._manager.directories[job.directory]
            if directory.is_online:
                return directory.on_written(job)
        return []

    def on_failed(self, job: DiskJob, error: OSError) -> None:
        """A job has failed: its directory goes offline, nothing is tried again."""
        if isinstance(job, FlushLog):
            del self._flushing[job.log]
        elif isinstance(job, WriteCheckpoint) and is_full(error):
            # The former file is as it was; the next round writes it.
            self._manager.directories[job.directory].on_not_written(job)
            return
        self._manager.take_offline(self._manager.directories[job.directory], error)
