"""One directory of log.dirs: its lock, its identity, its checkpoints, its health.

    .lock                             held while the broker runs
    meta.properties                   broker and cluster that own the data
    recovery-point-offset-checkpoint  per partition: below it everything is on disk
    replication-offset-checkpoint     per partition: high watermark
    log-start-offset-checkpoint       per partition whose log start is above its first base offset
    cleaner-offset-checkpoint         per compacted partition: where its next cleaning begins
    .kafka_cleanshutdown              only while no broker runs
    <topic>-<partition>/              one folder per log

A directory is online or offline; once offline it stays so until the broker starts again.

Source: Kafka's LogManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from odradek.bounded_files import system_error_text
from odradek.runtime.files import FileLock, FileSystem
from odradek.storage.checkpoints.checkpoint_file import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpoint,
    PartitionName,
    encode_offsets,
    read_offsets,
)
from odradek.storage.checkpoints.clean_shutdown import take_clean_shutdown_mark
from odradek.storage.checkpoints.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from odradek.storage.directories.disk_jobs import SyncNewFolders, WriteCheckpoint
from odradek.storage.events import Report, StorageEvent
from odradek.storage.log.log import Log

LOCK_FILE: Final = ".lock"

_WRITTEN_HERE: Final = (
    RECOVERY_POINT_FILE,
    LOG_START_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    CLEANER_OFFSET_FILE,
)

_AWAITED: Final = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, CLEANER_OFFSET_FILE)
"""What a truncation must have on disk before the log is appended to again."""

WITHOUT: Final = {
    RECOVERY_POINT_FILE: "all batches are checked after an unclean stop",
    LOG_START_OFFSET_FILE: "logs start at their first segments, deleted records may be back",
    HIGH_WATERMARK_FILE: "high watermarks start at the starts of the logs",
    CLEANER_OFFSET_FILE: "compacted logs are cleaned from their starts",
}
"""What a start does without each of the checkpoints."""


class DirectoryInUse(Exception):
    """Another process holds the lock of a directory; the broker must not start."""


class LogDirectory:
    """The state of one directory: its logs, its lock, what its files say."""

    __slots__ = (
        "_awaited",
        "_cleaned_folders",
        "_files",
        "_forgotten",
        "_in_flight",
        "_in_flight_awaited",
        "_lock",
        "_unsynced_folders",
        "_wanted_again",
        "_written",
        "cleaner_offsets",
        "failure",
        "future_logs",
        "high_watermarks",
        "is_loaded",
        "log_start_offsets",
        "logs",
        "meta",
        "new_folders",
        "path",
        "recovery_points",
        "topic_ids",
        "was_clean_shutdown",
    )

    path: str
    """The path as configured, without a slash at its end."""
    failure: str | None
    """Why it is offline, None while it is online."""
    meta: MetaProperties | None
    """What meta.properties says."""
    is_loaded: bool
    """Whether every log in it was opened."""
    was_clean_shutdown: bool
    """Whether the mark of a clean shutdown was there, before it was taken away."""
    logs: dict[PartitionName, Log]
    future_logs: dict[PartitionName, Log]
    """Copies on their way from another directory of this broker."""
    topic_ids: dict[str, UUID | None]
    """Per partition folder that has a partition.metadata; None: it cannot be read."""
    new_folders: dict[str, SyncNewFolders | None]
    """Folders of new logs that need not be durable yet, each with the job that makes it so."""
    high_watermarks: dict[PartitionName, int]
    """Read from the checkpoint at start; every log takes its own over when it is opened."""
    recovery_points: dict[PartitionName, int]
    """Read from the checkpoint at start."""
    log_start_offsets: dict[PartitionName, int]
    """Read from the checkpoint at start."""
    cleaner_offsets: dict[PartitionName, int]
    """Where the next cleaning of a compacted log begins: of the checkpoint at start, then as
    `note_cleaned` set it; of logs that were cleaned once."""

    def __init__(self, files: FileSystem, path: str) -> None:
        """Nothing is touched yet."""
        self._files = files
        self.path = path
        self.failure = None
        self.meta = None
        self.is_loaded = False
        self.was_clean_shutdown = False
        self.logs = {}
        self.future_logs = {}
        self.topic_ids = {}
        self.new_folders = {}
        self.high_watermarks = {}
        self.recovery_points = {}
        self.log_start_offsets = {}
        self.cleaner_offsets = {}
        self._lock: FileLock | None = None
        self._unsynced_folders: dict[str, None] = {}
        self._cleaned_folders: dict[str, None] = {}
        # Per checkpoint: the write under way, whether another one is due after it, the bytes on
        # disk, and the deleted partitions that those may still name.
        self._in_flight: dict[str, WriteCheckpoint] = {}
        self._wanted_again: dict[str, None] = {}
        # Callbacks of `await_checkpoints`: for the next write of a file, and for that under way.
        self._awaited: dict[str, list[Callable[[], None]]] = {}
        self._in_flight_awaited: dict[str, list[Callable[[], None]]] = {}
        self._written: dict[str, bytes] = {}
        self._forgotten: dict[str, dict[PartitionName, None]] = {name: {} for name in _WRITTEN_HERE}

    @property
    def is_online(self) -> bool:
        """Whether nothing has failed here yet."""
        return self.failure is None

    def file(self, name: str) -> str:
        """Path of a file or folder right in the directory."""
        return f"{self.path}/{name}"

    def all_logs(self) -> list[Log]:
        """Logs here, copies on their way included."""
        return [*self.logs.values(), *self.future_logs.values()]

    def partition_count(self) -> int:
        """How many logs are here, copies on their way included."""
        return len(self.logs) + len(self.future_logs)

    # Start and end.

    def open(self) -> None:
        """Make the directory if it is new, lock it and read its meta.properties.

        raises  DirectoryInUse; MetaPropertiesError; OSError
        """
        if not self._files.exists(self.path):
            self._files.make_directory(self.path)
            self._files.sync_directory(self.path.rpartition("/")[0] or "/")
        try:
            self._lock = self._files.lock(self.file(LOCK_FILE))
        except BlockingIOError:
            raise DirectoryInUse(f"{self.path} is in use by another broker process") from None
        self.meta = read_meta_properties(self._files, self.path)

    def read_checkpoints(self, report: Report) -> bool:
        """Take the clean-shutdown mark away, then read the offsets.

        A checkpoint that cannot be read is reported and holds nothing: without recovery points all
        batches are checked after an unclean stop, without log starts a log starts at its first
        segment, without high watermarks at its start, without cleaner offsets cleaning starts over.

        returns  whether the last shutdown was clean
        raises   OSError: the directory cannot be used
        """
        self.was_clean_shutdown = take_clean_shutdown_mark(self._files, self.path)
        self.recovery_points = self._read(RECOVERY_POINT_FILE, report)
        self.log_start_offsets = self._read(LOG_START_OFFSET_FILE, report)
        self.high_watermarks = self._read(HIGH_WATERMARK_FILE, report)
        # Most brokers compact nothing: they need no file that says so.
        self._written[CLEANER_OFFSET_FILE] = encode_offsets({})
        self.cleaner_offsets = self._read(CLEANER_OFFSET_FILE, report)
        return self.was_clean_shutdown

    def _read(self, name: str, report: Report) -> dict[PartitionName, int]:
        path = self.file(name)
        try:
            offsets = read_offsets(self._files, path)
        except CorruptCheckpoint as error:
            report(StorageEvent(path, f"{WITHOUT[name]}, since it cannot be read: {error}"))
            self._written.pop(name, None)
            return {}
        if name in self._written:
            self._written[name] = encode_offsets(offsets)
        return offsets

    def on_loaded(self) -> None:
        """Every log is open; lines of the checkpoints that no log belongs to are void."""
        self.is_loaded = True
        for offsets in (
            self.recovery_points,
            self.log_start_offsets,
            self.high_watermarks,
            self.cleaner_offsets,
        ):
            for key in list(offsets):
                if key not in self.logs and key not in self.future_logs:
                    self.forget(key)

    def release(self) -> None:
        """Release the lock, if it is held."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def fail(self, error: Exception) -> str:
        """Go offline, for good; returns why, as it is reported."""
        is_of_system = isinstance(error, OSError)
        text = system_error_text(error) if is_of_system else str(error)
        self.failure = text or type(error).__name__
        return self.failure

    def write_meta(self, meta: MetaProperties, *, date: str) -> None:
        """Write meta.properties; raises OSError.

        date  for the comment, as in `meta_properties`
        """
        write_meta_properties(self._files, self.path, meta, date=date)
        self.meta = meta

    # Logs.

    def add(self, log: Log) -> None:
        """A log was opened or created here, or the copy of one is complete."""
        self.logs[log.topic, log.partition] = log

    def add_future(self, log: Log) -> None:
        """A copy on its way from another directory was opened or begun."""
        self.future_logs[log.topic, log.partition] = log

    def note_new_folder(self, folder: str) -> None:
        """A log was created, in a folder that need not be durable yet."""
        self.new_folders[folder] = None

    def note_topic_id(self, folder: str, topic_id: UUID | None) -> None:
        """A partition folder has a partition.metadata; None: it cannot be read."""
        self.topic_ids[folder] = topic_id

    def is_unidentified(self, log: Log) -> bool:
        """Whether the partition.metadata of a log cannot be read."""
        return log.directory in self.topic_ids and self.topic_ids[log.directory] is None

    def drop(self, log: Log) -> None:
        """A log, or a copy, is not here any more."""
        key = (log.topic, log.partition)
        for logs in (self.logs, self.future_logs):
            if logs.get(key) is log:
                del logs[key]
        self.topic_ids.pop(log.directory, None)
        self.new_folders.pop(log.directory, None)

    # Checkpoints.

    def checkpoints(self) -> list[WriteCheckpoint]:
        """Recovery points, log starts and cleaner offsets, as far as they are not on disk.

        A file that is being written just now is left out; `on_written` then gives it again.
        """
        return [
            *self._checkpoint(RECOVERY_POINT_FILE),
            *self._checkpoint(LOG_START_OFFSET_FILE),
            *self.checkpoint_cleaner_offsets(),
        ]

    def checkpoint_cleaner_offsets(self) -> list[WriteCheckpoint]:
        """The cleaner offsets, unless they are on disk."""
        return self._checkpoint(CLEANER_OFFSET_FILE)

    def checkpoint_high_watermarks(self) -> list[WriteCheckpoint]:
        """The high watermarks of all logs, unless they are on disk.

        A log that no replica has taken up yet has its former one (KAFKA-1647).
        """
        return self._checkpoint(HIGH_WATERMARK_FILE)

    def checkpoints_above_ends(self) -> list[WriteCheckpoint]:
        """Jobs for the checkpoints that said more of a log at the start than it has.

        A crash in a truncation leaves them.  Appends would reach what they say, and the next start
        would take what is not on disk, or not replicated, for what was, and the cleaner what it has
        not seen for clean.
        """
        above = [
            job
            for name, offsets in (
                (RECOVERY_POINT_FILE, self.recovery_points),
                (HIGH_WATERMARK_FILE, self.high_watermarks),
            )
            if any(
                offsets.get((log.topic, log.partition), 0) > log.end_offset
                for log in self.all_logs()
            )
            for job in self._checkpoint(name)
        ]
        went_back = False
        for key, log in self.logs.items():
            if self.cleaner_offsets.get(key, 0) > log.end_offset:
                went_back |= self.note_truncated(log)
        if went_back:
            above += self.checkpoint_cleaner_offsets()
        return above

    def checkpoints_naming(self, key: PartitionName) -> list[WriteCheckpoint]:
        """The checkpoints that may still hold a line of a deleted log of this name."""
        names = [name for name in _WRITTEN_HERE if key in self._forgotten[name]]
        return [job for name in names for job in self._checkpoint(name)]

    def _offsets(self, name: str) -> dict[PartitionName, int]:
        if name == HIGH_WATERMARK_FILE:
            return {(log.topic, log.partition): log.high_watermark for log in self.all_logs()}
        if name == CLEANER_OFFSET_FILE:
            return self.cleaner_offsets
        if name == RECOVERY_POINT_FILE:
            return {(log.topic, log.partition): _checked_up_to(log) for log in self.all_logs()}
        return {
            (log.topic, log.partition): log.log_start_offset
            for log in self.all_logs()
            if log.log_start_offset > log.segments.base_offsets[0]
        }

    def _checkpoint(self, name: str) -> list[WriteCheckpoint]:
        """At most one job."""
        if name in self._in_flight:
            self._wanted_again[name] = None
            return []
        data = encode_offsets(self._offsets(name))
        awaited = self._awaited.pop(name, [])
        if self._written.get(name) == data:
            self._forgotten[name].clear()
            for callback in awaited:
                callback()
            return []
        self._in_flight_awaited[name] = awaited
        folders: tuple[str, ...] = ()
        if name == RECOVERY_POINT_FILE:
            folders = tuple(self._unsynced_folders)
            self._unsynced_folders.clear()
        elif name == CLEANER_OFFSET_FILE:
            folders = tuple(self._cleaned_folders)
            self._cleaned_folders.clear()
        job = WriteCheckpoint(self.path, name, data, tuple(self._forgotten[name]), folders)
        self._in_flight[name] = job
        return [job]

    def on_not_written(self, job: WriteCheckpoint) -> None:
        """A checkpoint could not be written for now; the former one is still there."""
        name = job.name
        assert self._in_flight.get(name) is job, "one write per file at a time"
        del self._in_flight[name]
        self._wanted_again.pop(name, None)
        awaited = self._in_flight_awaited.pop(name)
        self._awaited[name] = awaited + self._awaited.get(name, [])
        # They may not have been synced, and the next one must not be written before they are.
        if name == RECOVERY_POINT_FILE:
            self._unsynced_folders |= dict.fromkeys(job.folders)
        elif name == CLEANER_OFFSET_FILE:
            self._cleaned_folders |= dict.fromkeys(job.folders)

    def on_written(self, job: WriteCheckpoint) -> list[WriteCheckpoint]:
        """A checkpoint is on disk.

        returns  it once more, when it was asked for while it was being written
        """
        name = job.name
        assert self._in_flight.get(name) is job, "one write per file at a time"
        del self._in_flight[name]
        self._written[name] = job.data
        for key in job.forgotten:
            self._forgotten[name].pop(key, None)
        for callback in self._in_flight_awaited.pop(name):
            callback()
        if name not in self._wanted_again:
            return []
        del self._wanted_again[name]
        return self._checkpoint(name)

    def await_checkpoints(self, on_written: Callable[[], None]) -> list[WriteCheckpoint]:
        """Write the checkpoints, and call back when what they say now is on disk.

        A write that is under way may say less: then the callback follows the next one.  It is not
        called when the directory fails.

        returns  the writes that are not under way yet
        """
        files_left = len(_AWAITED)

        def count() -> None:
            nonlocal files_left
            files_left -= 1
            if not files_left:
                on_written()

        for name in _AWAITED:
            self._awaited.setdefault(name, []).append(count)
        return self.checkpoints()

    def write_now(self, jobs: list[WriteCheckpoint]) -> None:
        """Write checkpoints within this call.

        raises  OSError: the directory has to go offline, unless that is a temporary one
        """
        for number, job in enumerate(jobs):
            try:
                job.run(self._files)
            except OSError:
                for unwritten in jobs[number:]:
                    self.on_not_written(unwritten)
                raise
            again = self.on_written(job)
            assert not again, "nothing asks for a checkpoint while it is written within a call"

    def note_cleaned(self, log: Log, end_offset: int) -> None:
        """A log was cleaned below `end_offset`, or is to be cleaned from there on.

        Its folder is synced before the checkpoint is written: segments that came back after a
        power cut would count as cleaned.
        """
        self.cleaner_offsets[log.topic, log.partition] = end_offset
        self._cleaned_folders[log.directory] = None

    def note_truncated(self, log: Log) -> bool:
        """The end of a log was truncated: what is written there next was never cleaned.

        returns  whether its cleaner offset went back
        source   Kafka's LogCleanerManager.maybeTruncateCheckpoint
        """
        key = (log.topic, log.partition)
        cleaner_offset = self.cleaner_offsets.get(key, 0)
        if cleaner_offset <= log.segments.active.base_offset:
            return False
        self.cleaner_offsets[key] = log.segments.active.base_offset
        return True

    def note_renamed_segments(self, log: Log) -> None:
        """Retention or compaction has taken segments out of a log; the recovery point may have
        moved."""
        self.note_unsynced(log.directory)

    def sync_new_folders(self) -> list[SyncNewFolders]:
        """At most one job, for the new folders that no job under way makes durable."""
        folders = tuple(folder for folder, job in self.new_folders.items() if job is None)
        if not folders:
            return []
        job = SyncNewFolders(self.path, folders)
        self.new_folders |= dict.fromkeys(folders, job)
        return [job]

    def sync_new_folder(self, folder: str) -> None:
        """Make a folder durable within this call, if it need not be so yet; raises OSError."""
        if folder in self.new_folders:
            SyncNewFolders(self.path, (folder,)).run(self._files)

    def on_folders_synced(self, job: SyncNewFolders) -> None:
        """The folders are durable, but those that were deleted and created again meanwhile."""
        for folder in job.folders:
            if self.new_folders.get(folder) is job:
                del self.new_folders[folder]

    def on_folders_not_synced(self, job: SyncNewFolders) -> None:
        """The job found no descriptor: no fsync has failed, and the next one does it all."""
        for folder in job.folders:
            if self.new_folders.get(folder) is job:
                self.new_folders[folder] = None

    def note_unsynced(self, folder: str) -> None:
        """Renames in a folder are to be synced before recovery points are written next."""
        self._unsynced_folders[folder] = None

    def forget(self, key: PartitionName) -> None:
        """A partition was removed from here; the checkpoints name it until they are rewritten."""
        self.high_watermarks.pop(key, None)
        self.recovery_points.pop(key, None)
        self.log_start_offsets.pop(key, None)
        self.cleaner_offsets.pop(key, None)
        for forgotten in self._forgotten.values():
            forgotten[key] = None


def _checked_up_to(log: Log) -> int:
    """The recovery point; a gap that is not explained yet is to be found again."""
    gap, recovery_point = log.segment_gap, log.flush_state.recovery_point
    return recovery_point if gap is None else min(recovery_point, gap.start_offset)
