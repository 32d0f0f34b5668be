"""What must be synced so that a log is durable up to its end, and how far it is.

Up to the recovery point nothing is checked after a crash, so everything of a closed segment is
synced with it: the indexes, the producer snapshot at its end, and the folder.  The active segment
is checked, and its indexes are rebuilt, after every crash.  For that it must contain the recovery
point: a flush that ends exactly at the end of the active segment moves it one offset less far, or
the segment's indexes, closed later, would count as checked.

Source: Kafka's LocalLog.flush, UnifiedLog.flush; KAFKA-9892 (snapshots).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from odradek.runtime.files import FileSystem, sync_file
from odradek.storage.checkpoints.leader_epochs import LeaderEpochFileCache
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.snapshot_files import SnapshotFiles
from odradek.storage.segments.segments import Segments


class FlushStart(NamedTuple):
    """The end of the log when a flush was prepared; identifies the flush."""

    end_offset: int
    active_base_offset: int


class LogFlush(NamedTuple):
    """Work for a thread; it shares nothing with the log."""

    files: FileSystem
    directory: str
    paths: tuple[str, ...]
    """Oldest first; one that does not exist any more was deleted or truncated, and is skipped."""
    is_folder_changed: bool
    end_offset: int
    """For `Log.mark_flushed`: at most one less than the log end offset at that time."""

    def run(self) -> None:
        """One fsync for each path and one for the folder.

        raises  OSError: never run it again, the log goes offline
        """
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                sync_file(self.files, path)
        if self.is_folder_changed:
            # The folder may be renamed meanwhile, when the log is deleted (KAFKA-15391).
            with contextlib.suppress(FileNotFoundError):
                self.files.sync_directory(self.directory)

    def with_paths(self, paths: Sequence[str]) -> LogFlush:
        """This flush, with these paths and the folder."""
        more = tuple(path for path in paths if path not in self.paths)
        return self._replace(paths=self.paths + more, is_folder_changed=True)


class FlushState:
    """How far one log is durable, and what a flush must sync."""

    __slots__ = (
        "_epochs",
        "_last_flush_ms",
        "_needs_full_flush",
        "_segments",
        "_snapshots",
        "recovery_point",
        "started_at",
    )

    recovery_point: int
    """Exclusive: the records below it are on disk, with their indexes."""
    started_at: FlushStart
    """When the last flush was prepared."""

    def __init__(
        self,
        segments: Segments,
        snapshots: SnapshotFiles,
        epochs: LeaderEpochFileCache,
        *,
        recovery_point: int,
        needs_full_flush: bool,
        now_ms: int,
    ) -> None:
        """A log as it was loaded.

        needs_full_flush  a power cut may bring back files that were removed or truncated
        """
        self._segments = segments
        self._snapshots = snapshots
        self._epochs = epochs
        self._last_flush_ms = now_ms
        self._needs_full_flush = needs_full_flush
        self.recovery_point = recovery_point
        self.started_at = FlushStart(recovery_point, segments.active.base_offset)

    def is_due(self, end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """By flush.messages, by flush.ms, or because a segment was rolled since the last one."""
        unflushed = end_offset - self.started_at.end_offset
        return (
            unflushed >= config.flush_messages
            or (unflushed > 0 and now_ms - self._last_flush_ms >= config.flush_ms)
            or self._segments.active.base_offset > self.started_at.active_base_offset
        )

    def prepare(self, end_offset: int, now_ms: int | None = None) -> LogFlush:
        """What to sync so that everything appended so far is on disk.

        Its `run` may be called in a thread; then `Log.mark_flushed` with its `end_offset`, before
        the next flush is prepared.  When `run` fails the log must go offline: a failed fsync is
        never retried.

        end_offset  of the log
        """
        files, directory = self._segments.shared.files, self._segments.directory
        epochs = self._epochs
        if epochs.is_unwritten:
            epochs.write()
        if epochs.is_unwritten:
            # Without the epochs the recovery point must not pass their batches.
            return LogFlush(files, directory, (), False, self.recovery_point)
        flush = self._everything_unsynced(end_offset)
        epochs.mark_synced()
        self._needs_full_flush = False
        self.started_at = FlushStart(end_offset, self._segments.active.base_offset)
        if now_ms is not None:
            self._last_flush_ms = now_ms
        return flush

    def _everything_unsynced(self, end_offset: int) -> LogFlush:
        """What was written at or after the recovery point."""
        segments, recovery_point = self._segments, self.recovery_point
        active = segments.active
        paths: list[str] = []
        if self._needs_full_flush or self.started_at != (end_offset, active.base_offset):
            for segment in segments[segments.number_of(recovery_point) :]:
                if segment is active:
                    paths.append(segment.handle.path)
                else:
                    paths.extend(segment.existing_paths())
            paths.extend(
                self._snapshots.path(offset)
                for offset in self._snapshots.offsets
                if offset >= recovery_point
            )
        if self._epochs.is_unsynced:
            paths.append(self._epochs.path)
        is_folder_changed = (
            active.base_offset >= recovery_point
            or self._epochs.is_unsynced
            or self._needs_full_flush
        )
        if end_offset > active.base_offset:
            end_offset -= 1
        return LogFlush(
            segments.shared.files,
            segments.directory,
            tuple(paths),
            is_folder_changed and bool(paths),
            max(end_offset, recovery_point),
        )

    def complete(self, end_offset: int) -> None:
        """A flush has succeeded; `end_offset` is that of its `LogFlush`."""
        self.recovery_point = max(self.recovery_point, min(end_offset, self.started_at.end_offset))

    def postpone(self) -> None:
        """A flush found no descriptor for a file.  No fsync has failed: the next one syncs all."""
        self._epochs.mark_unsynced()
        self._needs_full_flush = True
        self.started_at = FlushStart(min(self.recovery_point, self.started_at.end_offset), -1)

    def on_truncated(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`.

        The active segment must be checked after a crash, so it must contain the recovery point.
        """
        base_offset = self._segments.active.base_offset
        flushed_to = end_offset - 1 if end_offset > base_offset else end_offset
        self.recovery_point = min(self.recovery_point, flushed_to)
        self.started_at = FlushStart(min(self.started_at.end_offset, end_offset), base_offset)
        self._needs_full_flush = True

    def is_as_loaded(self, end_offset: int) -> bool:
        """Whether nothing was written since a clean stop: only then is the recovery point here.

        A thousand idle partitions then stop without an fsync.
        """
        is_written = (
            self._segments.active.is_ready
            or self._needs_full_flush
            or self._epochs.is_unwritten
            or self._epochs.is_unsynced
        )
        return self.recovery_point == end_offset and not is_written

    def flush_all(self, end_offset: int, now_ms: int) -> None:
        """Sync everything, the active segment's indexes included, for a clean stop.

        raises  OSError
        """
        flush = self.prepare(end_offset, now_ms)
        if self._epochs.is_unwritten:
            raise OSError(f"{self._epochs.path} could not be written")
        flush.with_paths(self._segments.active.existing_paths()).run()
        self.recovery_point = end_offset
