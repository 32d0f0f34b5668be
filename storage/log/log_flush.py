"""What has to be synced so that a log is on disk up to its end.

Up to the recovery point nothing is checked after a crash, so everything of a closed segment is
synced with it: the indexes, the producer snapshot at its end, and the folder.  The segment in use
is checked and its indexes are rebuilt after every crash.  For that it must hold the recovery point:
a flush that ends right at the end of the segment in use moves it one offset less far, or the
segment's indexes, closed later, would count as checked.

Source: Kafka's LocalLog.flush, UnifiedLog.flush; KAFKA-9892 (snapshots).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.epoch_file import epoch_path
from odradek.storage.log.log_append import write_ends

if TYPE_CHECKING:
    from odradek.storage.log.log import Log


@dataclass(frozen=True, slots=True)
class LogFlush:
    """Work for a thread; it shares nothing with the log."""

    files: FileSystem
    directory: str
    paths: tuple[str, ...]
    """Oldest first; one that is gone by now was deleted or cut off and need not be synced."""
    is_folder_changed: bool
    end_offset: int
    """What `Log.mark_flushed` is to be told: at most one less than the end at that time."""

    def run(self) -> None:
        """One fsync for each path and one for the folder.

        raises  OSError: never run it again, the log goes offline
        """
        for path in self.paths:
            try:
                file = self.files.open(path)
            except FileNotFoundError:
                continue
            try:
                file.sync()
            finally:
                file.close()
        if self.is_folder_changed:
            # A log that is deleted meanwhile takes its folder along (KAFKA-15391).
            with contextlib.suppress(FileNotFoundError):
                self.files.sync_directory(self.directory)

    def with_paths(self, paths: Sequence[str]) -> LogFlush:
        """The same and these paths, and the folder."""
        more = tuple(path for path in paths if path not in self.paths)
        return replace(self, paths=self.paths + more, is_folder_changed=True)


def is_due(log: Log, now_ms: int) -> bool:
    """`Log.is_flush_due`."""
    unflushed = log.unflushed_messages()
    config = log.config
    return (
        unflushed >= config.flush_messages
        or (unflushed > 0 and now_ms - log.last_flush_ms >= config.flush_ms)
        or log.active.base_offset > log.flush_begun_at[1]
    )


def prepare(log: Log, now_ms: int | None) -> LogFlush:
    """`Log.prepare_flush`."""
    if log.are_epochs_unwritten:
        log.write_epochs()
    if log.are_epochs_unwritten:
        # Without them the recovery point must not pass their batches: nothing is promised.
        return LogFlush(log.shared.files, log.directory, (), False, log.recovery_point)
    flush = _everything_unsynced(log)
    log.are_epochs_unsynced = log.is_past_unsynced = False
    log.flush_begun_at = (log.end_offset, log.active.base_offset)
    if now_ms is not None:
        log.last_flush_ms = now_ms
    return flush


def put_off(log: Log) -> None:
    """A flush found no descriptor for a file; no fsync has failed, so the next syncs it all."""
    log.are_epochs_unsynced = log.is_past_unsynced = True
    log.flush_begun_at = (min(log.recovery_point, log.flush_begun_at[0]), -1)


def finish(log: Log, now_ms: int) -> None:
    """Complete and sync everything, so that the next start need not check anything.

    raises  OSError
    """
    if _is_as_loaded(log):
        return
    write_ends(log)
    flush = prepare(log, now_ms)
    if log.are_epochs_unwritten:
        raise OSError(f"{epoch_path(log.directory)} could not be written")
    flush.with_paths(log.active.existing_paths()).run()
    log.recovery_point = log.end_offset


def _is_as_loaded(log: Log) -> bool:
    """Whether nothing was written since a clean stop: only that leaves the recovery point here.

    A thousand idle partitions then stop without an fsync.
    """
    is_written = (
        log.active.is_ready
        or log.is_past_unsynced
        or log.are_epochs_unwritten
        or log.are_epochs_unsynced
    )
    return log.recovery_point == log.end_offset and not is_written


def _everything_unsynced(log: Log) -> LogFlush:
    """What was written at or behind the recovery point."""
    files = log.shared.files
    active = log.active
    paths: list[str] = []
    if log.is_past_unsynced or log.flush_begun_at != (log.end_offset, active.base_offset):
        number = log.segment_number(log.recovery_point)
        for segment in log.segments[number:]:
            if segment is active:
                paths.append(segment.handle.path)
            else:
                paths.extend(segment.existing_paths())
        paths.extend(
            log.snapshots.path(offset)
            for offset in log.snapshots.offsets
            if offset >= log.recovery_point
        )
    if log.are_epochs_unsynced:
        paths.append(epoch_path(log.directory))
    is_folder_changed = (
        active.base_offset >= log.recovery_point or log.are_epochs_unsynced or log.is_past_unsynced
    )
    end_offset = log.end_offset
    if end_offset > active.base_offset:
        end_offset -= 1
    return LogFlush(
        files,
        log.directory,
        tuple(paths),
        is_folder_changed and bool(paths),
        max(end_offset, log.recovery_point),
    )
