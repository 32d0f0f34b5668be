"""Disk work that is too slow for an event loop: made here, run in a thread, reported back.

A job is a value: `run` touches the disk and nothing else, so it may run in any thread while the
logs are in use.  Its outcome comes back to `storage/directories/upkeep` as `on_finished(job)` or
`on_failed(job, error)`.  A job that failed in an fsync is never run again: the kernel has forgotten
the pages, and a second one would claim success (KAFKA-10778).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.checkpoint_file import TopicPartition
from odradek.storage.log.flush import FlushStart, LogFlush
from odradek.storage.log.log import Log
from odradek.storage.segments.index_rebuild import IndexRebuild


@dataclass(frozen=True, slots=True, eq=False)
class WriteCheckpoint:
    """Replace one checkpoint file; at most one job per file is under way."""

    directory: str
    """Of log.dirs."""
    name: str
    data: bytes
    forgotten: tuple[TopicPartition, ...]
    """Partitions deleted before this was made; their lines are gone once it is written."""
    folders: tuple[str, ...]
    """To be synced first: were segments to come back that retention took out, they would lie below
    their recovery point unchecked."""

    def run(self, files: FileSystem) -> None:
        """Write, sync and rename; OSError leaves the former file."""
        for folder in self.folders:
            with contextlib.suppress(FileNotFoundError):
                files.sync_directory(folder)
        files.replace(f"{self.directory}/{self.name}", self.data)


@dataclass(frozen=True, slots=True, eq=False)
class FlushLog:
    """Make a log durable; its recovery point moves when this is reported as finished."""

    directory: str
    """Of log.dirs."""
    log: Log
    """For the report; not used in the thread."""
    flush: LogFlush
    started_at: FlushStart
    """`Log.flush_started_at` of this flush."""

    def run(self, files: FileSystem) -> None:
        """One fsync per file and one for the folder; OSError when one fails."""
        assert files is self.flush.files, "the log is of the same file system"
        self.flush.run()


@dataclass(frozen=True, slots=True, eq=False)
class RemoveFolder:
    """Remove the folder of a deleted partition."""

    directory: str
    """Of log.dirs."""
    path: str

    def run(self, files: FileSystem) -> None:
        """Remove it with everything in it; OSError when some of it stays."""
        if files.exists(self.path):
            files.remove_tree(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class RemoveFiles:
    """Remove files that retention or compaction set aside."""

    directory: str
    """Of log.dirs."""
    paths: tuple[str, ...]

    def run(self, files: FileSystem) -> None:
        """Remove those that are still there: their folder may have been renamed meanwhile."""
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                files.remove(path)


Removal = RemoveFolder | RemoveFiles
DiskJob = WriteCheckpoint | FlushLog | Removal | IndexRebuild
