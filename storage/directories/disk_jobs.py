"""Disk work that is too slow for an event loop and is run in a thread.

A job is a value: `run` accesses the disk and nothing else, so it may run in any thread while the
logs change.  Its result is reported to `directories/upkeep` as `on_finished(job)` or
`on_failed(job, error)`.  A job that failed in an fsync is never run again: the kernel has forgotten
the pages, and a second one would claim success (KAFKA-10778).
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple, Protocol

from odradek.runtime.files import FileSystem, sync_file
from odradek.storage.checkpoints.checkpoint_file import PartitionName
from odradek.storage.checkpoints.partition_metadata import PARTITION_METADATA_FILE
from odradek.storage.log.flush import FlushStart, LogFlush
from odradek.storage.log.log import Log
from odradek.storage.log.log_truncation import UnfinishedTruncation
from odradek.storage.segments.index_rebuild import IndexRebuild


class WriteCheckpoint(NamedTuple):
    """Replace one checkpoint file; at most one job per file is under way."""

    directory: str
    """The directory of log.dirs."""
    name: str
    data: bytes
    forgotten: tuple[PartitionName, ...]
    """Partitions deleted before this job was made; the new file does not name them."""
    folders: tuple[str, ...]
    """To be synced first: removed segments that a power cut brought back would be below the
    recovery point, where nothing is checked."""

    @property
    def path(self) -> str:
        """Path of the file."""
        return f"{self.directory}/{self.name}"

    def run(self, files: FileSystem) -> None:
        """Write, sync and rename; OSError leaves the former file."""
        for folder in self.folders:
            with contextlib.suppress(FileNotFoundError):
                files.sync_directory(folder)
        files.replace(self.path, self.data)


class SyncNewFolders(NamedTuple):
    """Make the folders of new logs durable, with the topic ids in them.

    Source: Kafka's UnifiedLog.assignTopicId, which schedules this.
    """

    directory: str
    """The directory of log.dirs."""
    folders: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path of the directory."""
        return self.directory

    def run(self, files: FileSystem) -> None:
        """Two fsyncs for each folder, one for the directory; a deleted folder is skipped."""
        for folder in self.folders:
            # The folder may be renamed meanwhile, and a topic need not have an id.
            with contextlib.suppress(FileNotFoundError):
                sync_file(files, f"{folder}/{PARTITION_METADATA_FILE}")
            with contextlib.suppress(FileNotFoundError):
                files.sync_directory(folder)
        files.sync_directory(self.directory)


class FlushLog(NamedTuple):
    """Make a log durable; its recovery point moves when this is reported as finished."""

    directory: str
    """The directory of log.dirs."""
    log: Log
    """For the report; not used in the thread."""
    flush: LogFlush
    started_at: FlushStart
    """`FlushState.started_at` of this flush."""
    is_new: bool = False
    """The log's folder is not known to be durable: it is made so first."""

    @property
    def path(self) -> str:
        """Path of the log's folder."""
        return self.log.directory

    def run(self, files: FileSystem) -> None:
        """One fsync per file and one for the folder; OSError when one fails."""
        assert files is self.flush.files, "the log is of the same file system"
        if self.is_new:
            SyncNewFolders(self.directory, (self.path,)).run(files)
        self.flush.run()


class RemoveFolder(NamedTuple):
    """Remove the folder of a deleted partition."""

    directory: str
    """The directory of log.dirs."""
    path: str

    def run(self, files: FileSystem) -> None:
        """Remove it with everything in it; OSError when some of it stays."""
        if files.exists(self.path):
            files.remove_tree(self.path)


class SyncEnded(Protocol):
    """Called on the loop when a `SyncDeletion` has ended."""

    def __call__(self, directory: str, *, is_durable: bool) -> None:
        """Without a free descriptor the sync is left to the next recovery points, and counts as
        durable."""


class SyncDeletion(NamedTuple):
    """Make the renames of deleted partitions' folders durable."""

    directory: str
    """The directory of log.dirs."""
    ended: SyncEnded
    """For the report; not called in the thread."""

    @property
    def path(self) -> str:
        """Path of the directory."""
        return self.directory

    def run(self, files: FileSystem) -> None:
        """One fsync."""
        files.sync_directory(self.directory)


class RemoveFiles(NamedTuple):
    """Remove files that retention or compaction took out of a log."""

    directory: str
    """The directory of log.dirs."""
    paths: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path of the first file."""
        return self.paths[0] if self.paths else self.directory

    def run(self, files: FileSystem) -> None:
        """Remove those that are still there: their folder may have been renamed meanwhile."""
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                files.remove(path)


class FinishTruncation(NamedTuple):
    """Make a truncation durable and the producer state fit; the log takes no append meanwhile."""

    directory: str
    """The directory of log.dirs."""
    log: Log
    """For the report; not used in the thread."""
    truncation: UnfinishedTruncation
    is_folder_changed: bool

    @property
    def path(self) -> str:
        """Path of the log's folder."""
        return self.log.directory

    def run(self, files: FileSystem) -> None:
        """Sync the file that was cut, and the folder when segments were removed; then replay
        producers' batches."""
        # The folder may be renamed meanwhile, when the log is deleted.
        with contextlib.suppress(FileNotFoundError):
            sync_file(files, self.truncation.end_path)
            if self.is_folder_changed:
                files.sync_directory(self.path)
        if self.truncation.rebuild is not None:
            self.truncation.rebuild.run(files)


Removal = RemoveFolder | RemoveFiles
DiskJob = (
    WriteCheckpoint
    | SyncNewFolders
    | FlushLog
    | SyncDeletion
    | Removal
    | IndexRebuild
    | FinishTruncation
)
