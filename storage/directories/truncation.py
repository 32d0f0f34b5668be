"""Truncates logs: what is short within the call, what waits for the disk in jobs.

A truncation may move the recovery point back.  That must be on disk before anything is appended
again: after a crash everything below the former recovery point would count as checked.  So must the
removal of segments: one that came back could fit after what was appended since.  And the producers'
batches that remain may have to be replayed.

So each truncation ends with a job, and the log takes no append before the end of it.  The logs of a
directory share the writes of its checkpoints: a thousand truncations cost few of them.

Source: Kafka's LogManager.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.storage.directories.disk_jobs import DiskJob, FinishTruncation, RemoveFiles
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.log.log import Log
from odradek.storage.log.log_truncation import UnfinishedTruncation


class Truncations:
    """The truncations of all logs of a manager; any method may raise `NoDirectoryLeft`.

    Logs whose disk fails go offline with their directories; nothing is called back for them.
    """

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._waiting: dict[Log, list[Callable[[], None]]] = {}
        """Callbacks per log that is being truncated."""
        self._postponed: list[FinishTruncation] = []

    def truncate_to(self, log: Log, offset: int, *, now_ms: int) -> FinishTruncation | None:
        """Drop the batches at or after an offset, and close the log for appends.

        As `Log.truncate_to` it may leave some to the next truncation: a follower finds out in its
        next fetch that its log still ends too late.

        returns  the job that remains; None: nothing was dropped, or the directory has failed
        raises   BrokerError IndexUnready: nothing was dropped; call again when the indexes are
                 rebuilt
        """
        manager = self._manager
        directory = manager.directory_of(log)
        was_truncating = log.is_truncating
        try:
            truncation = log.truncate_to(offset, now_ms=now_ms)
        except (OSError, CorruptBatch) as error:
            manager.take_offline(directory, error)
            return None
        if truncation is None:
            return None
        # A truncation that has not ended may have removed segments, too.
        is_folder_changed = bool(truncation.paths) or was_truncating
        return self._begin(log, truncation, now_ms, is_folder_changed=is_folder_changed)

    def truncate_fully(
        self, log: Log, offset: int, *, log_start_offset: int | None = None, now_ms: int
    ) -> FinishTruncation | None:
        """Remove all batches of a log; the next one is appended at `offset`.

        log_start_offset  as `Log.truncate_fully_and_start_at`
        returns           the job that remains; None: the directory has failed
        """
        manager = self._manager
        try:
            truncation = log.truncate_fully_and_start_at(
                offset, log_start_offset=log_start_offset, now_ms=now_ms
            )
        except OSError as error:
            manager.take_offline(manager.directory_of(log), error)
            return None
        return self._begin(log, truncation, now_ms, is_folder_changed=True)

    def _begin(
        self, log: Log, truncation: UnfinishedTruncation, now_ms: int, *, is_folder_changed: bool
    ) -> FinishTruncation:
        directory = self._manager.directory_of(log)
        # Removing large files takes long: `Upkeep.remove` returns them as jobs for a thread.
        if truncation.paths:
            self._manager.removals.add(now_ms, RemoveFiles(directory.path, truncation.paths))
        directory.note_truncated(log)
        return FinishTruncation(directory.path, log, truncation, is_folder_changed)

    def when_done(self, log: Log, callback: Callable[[], None]) -> None:
        """Call back when the log takes appends again; at once when it does now."""
        if log.is_truncating:
            self._waiting.setdefault(log, []).append(callback)
        else:
            callback()

    # The jobs, as `Upkeep` reports them.

    def on_finished(self, job: FinishTruncation) -> Sequence[DiskJob]:
        """A job has run.

        returns  what has to be done next: it once more, or the checkpoints
        raises   OSError: a segment is damaged
        """
        log, truncation = job.log, job.truncation
        rebuild = truncation.rebuild
        if log.is_offline or truncation.truncation_count != log.truncation_count:
            self._forget_offline(log)
            return ()
        if rebuild is not None:
            rebuild.report()
            if rebuild.is_outdated:
                return (job._replace(truncation=log.truncation.rebuild_again(truncation)),)
            if rebuild.damage is not None:
                raise OSError(rebuild.damage)
        directory = self._manager.directory_of(log)
        return directory.await_checkpoints(lambda: self._finish(log, truncation))

    def on_failed(self, log: Log) -> None:
        """Its directory has gone offline."""
        self._forget_offline(log)

    def postpone(self, job: FinishTruncation) -> None:
        """A job found no descriptor for a file; `take_postponed` returns it."""
        self._postponed.append(job)

    def take_postponed(self) -> list[FinishTruncation]:
        """The jobs that are to be tried again."""
        jobs, self._postponed = self._postponed, []
        return jobs

    def _finish(self, log: Log, truncation: UnfinishedTruncation) -> None:
        if log.truncation.finish(truncation, high_watermark=log.high_watermark):
            for callback in self._waiting.pop(log, []):
                callback()
        else:
            self._forget_offline(log)

    def _forget_offline(self, log: Log) -> None:
        if log.is_offline:
            self._waiting.pop(log, None)
