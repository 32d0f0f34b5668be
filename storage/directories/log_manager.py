"""All logs of a broker, in all directories of log.dirs.

The manager has no clock, no thread and no event loop; opening, creating, deleting and closing logs
access the disk within the call.  Recurring work (retention, flushes, checkpoints, removals) is done
by `directories/upkeep`.

A directory that fails goes offline with all its logs, the others stay online; when the last one
fails, `NoDirectoryLeft` is raised and the broker has to stop.  `take_failures` returns what went
offline.

Call in this order: `open_directories`, `claim`, `load`, any of the others, `shutdown`.

Source: Kafka's LogManager; KIP-112 (failing directories), KIP-113 (moving between directories).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.checkpoint_file import PartitionName
from odradek.storage.checkpoints.clean_shutdown import write_clean_shutdown_mark
from odradek.storage.checkpoints.meta_properties import (
    META_PROPERTIES_FILE,
    ZOOKEEPER_VERSION,
    MetaProperties,
    check_meta_properties,
)
from odradek.storage.checkpoints.partition_metadata import write_topic_id
from odradek.storage.directories.directory_loading import LoadedDirectory, Loading, load_directory
from odradek.storage.directories.disk_jobs import RemoveFolder, SyncNewFolders
from odradek.storage.directories.log_creation import LogCreation, refuse_when_full, storage_error
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.directories.removals import Removals
from odradek.storage.directories.replacements import interrupted_replacements, unique_of
from odradek.storage.events import StorageEvent
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.files.disk_errors import is_out_of_descriptors
from odradek.storage.files.names import (
    DELETE_FOLDER,
    FUTURE_FOLDER,
    STRAY_FOLDER,
    folder_name,
    parse_folder_name,
    suffixed_folder_name,
)
from odradek.storage.log.log import Log, open_log
from odradek.storage.log_config import LogConfig


class NoDirectoryLeft(Exception):
    """Every directory of log.dirs has failed; the broker cannot go on."""


class DuplicateLog(Exception):
    """A partition is in two directories; the operator has to remove one of them."""


class DirectoryFailure(NamedTuple):
    """A directory that went offline, and what went with it."""

    path: str
    reason: str
    partitions: tuple[PartitionName, ...]


class LogManager:
    """Opens, creates and deletes every log."""

    def __init__(
        self,
        files: FileSystem,
        paths: Sequence[str],
        descriptors: Descriptors,
        *,
        file_delete_delay_ms: int,
    ) -> None:
        """Nothing is touched yet.

        paths                 log.dirs: absolute, without a slash at the end
        file_delete_delay_ms  from the deletion of a partition to the removal of its folder
        """
        assert paths, "log.dirs is not empty"
        self.files = files
        self.descriptors = descriptors
        """The open files of all logs."""
        self._file_delete_delay_ms = file_delete_delay_ms
        self.directories = {path: LogDirectory(files, path) for path in paths}
        """Online and offline ones, in the order of log.dirs."""
        self._logs: dict[PartitionName, Log] = {}
        self._future_logs: dict[PartitionName, Log] = {}
        self.removals = Removals()
        self._failures: list[DirectoryFailure] = []
        self.creation = LogCreation(files, self.directories, descriptors, self.take_offline)

    # Start.

    def open_directories(self) -> Mapping[str, MetaProperties]:
        """Lock every directory and read its meta.properties.

        returns  per directory that has one
        raises   DirectoryInUse, MetaPropertiesError, NoDirectoryLeft: the broker must not start
        """
        try:
            for directory in self.directories.values():
                try:
                    directory.open()
                except OSError as error:
                    self.take_offline(directory, error)
        except BaseException:
            self._release()
            raise
        return self._identities()

    def claim(
        self, *, broker_id: int, cluster_id: str, date: str, version: int = ZOOKEEPER_VERSION
    ) -> None:
        """Check that the directories belong to this broker, and mark the new ones as its own.

        date     for the comment, as in `meta_properties`
        version  that of the file in a new directory; the others keep theirs
        raises   MetaPropertiesError before anything is written; NoDirectoryLeft
        """
        check_meta_properties(self._identities(), broker_id=broker_id, cluster_id=cluster_id)
        for directory in self.online():
            former = directory.meta
            self._report_nameless(directory)
            mine = MetaProperties(broker_id, cluster_id, version=version)
            if former is not None:
                mine = MetaProperties(broker_id, cluster_id, former.directory_id, former.version)
            if former == mine:
                continue
            try:
                directory.write_meta(mine, date=date)
            except OSError as error:
                self.take_offline(directory, error)

    def _report_nameless(self, directory: LogDirectory) -> None:
        """Report a directory with logs and without an owner; Kafka accepts it silently."""
        meta = directory.meta
        if meta is not None and (meta.broker_id is not None or meta.cluster_id is not None):
            return
        with contextlib.suppress(OSError):
            if meta is None and not any(map(parse_folder_name, self.files.list(directory.path))):
                return
        what = "is missing" if meta is None else "names neither a broker nor a cluster"
        path = directory.file(META_PROPERTIES_FILE)
        self.descriptors.report(StorageEvent(path, f"{what}; written again for this broker"))

    def load(
        self,
        config_of: Callable[[str], LogConfig],
        *,
        now_ms: int,
        monotonic_ms: Callable[[], int] = lambda: 0,
        check_interrupted: Callable[[], None] = lambda: None,
    ) -> list[LoadedDirectory]:
        """Open every log.

        config_of          configuration of a topic, also of one that the cluster does not know
        monotonic_ms       for the report of what an unclean stop has cost
        check_interrupted  called before each log; what it raises ends the load
        returns            what was found, per directory that is online afterwards
        raises             DuplicateLog, NoDirectoryLeft; `shutdown` is to be called then as well
        cost               0.1 ms a small log after a clean shutdown, 0.4 ms after an unclean one
        """
        loading = Loading(self.descriptors, config_of, now_ms, monotonic_ms, check_interrupted)
        self._finish_replacements()
        loaded: list[LoadedDirectory] = []
        for directory in self.online():
            try:
                contents = load_directory(directory, loading)
            except OSError as error:
                if directory.was_clean_shutdown:
                    # Nothing was appended: what the mark says of the logs is as true as before.
                    with contextlib.suppress(OSError):
                        write_clean_shutdown_mark(self.files, directory.path)
                self.take_offline(directory, error)
                continue
            self._adopt(directory)
            due_ms = now_ms + self._file_delete_delay_ms
            for path in contents.deleted:
                self.removals.add(due_ms, RemoveFolder(directory.path, path))
            loaded.append(contents)
        return loaded

    def _finish_replacements(self) -> None:
        """Do the second step of a `replace_with_future` that a crash has interrupted."""
        for directory, former, folder in interrupted_replacements(
            self.files, [directory.path for directory in self.online()]
        ):
            try:
                self.files.rename(former, folder)
                self.files.sync_directory(directory)
            except OSError as error:
                self.take_offline(self.directories[directory], error)
            else:
                self.descriptors.report(StorageEvent(folder, f"was {former}, a complete copy"))

    def _adopt(self, directory: LogDirectory) -> None:
        for mine, theirs in (
            (self._logs, directory.logs),
            (self._future_logs, directory.future_logs),
        ):
            for key, log in theirs.items():
                other = mine.setdefault(key, log)
                if other is not log:
                    raise DuplicateLog(
                        f"{key[0]}-{key[1]} is in {other.directory} and in {log.directory}; "
                        "remove the one whose directory failed last"
                    )

    # Look-up.

    def get(self, topic: str, partition: int) -> Log | None:
        """The log of a partition, None when it is not here (or offline)."""
        return self._logs.get((topic, partition))

    def has(self, log: Log) -> bool:
        """Whether a log is still one of those here: not deleted, its directory online."""
        key = (log.topic, log.partition)
        return self._logs.get(key) is log or self._future_logs.get(key) is log

    def all(self) -> list[Log]:
        """Every log, copies on their way included."""
        return [*self._logs.values(), *self._future_logs.values()]

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """What partition.metadata says, None when the partition has none or is not here."""
        log = self._logs.get((topic, partition))
        return None if log is None else self.directory_of(log).topic_ids.get(log.directory)

    @property
    def offline_directories(self) -> tuple[str, ...]:
        """Paths of the directories that failed."""
        return tuple(d.path for d in self.directories.values() if not d.is_online)

    def take_failures(self) -> list[DirectoryFailure]:
        """The directories that went offline since the last call."""
        failures, self._failures = self._failures, []
        return failures

    # Creation and deletion.

    def create(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: UUID | None,
        is_new: bool,
        now_ms: int,
    ) -> Log:
        """The log of a partition; a new one is created in the directory that has the fewest.

        topic_id  None as long as the cluster has no topic ids
        is_new    the controller says that this replica never existed; otherwise it may be in an
                  offline directory, and an empty one must not take its place
        raises    BrokerError: KAFKA_STORAGE_ERROR (of which DirectoryFull), INCONSISTENT_TOPIC_ID;
                  NoDirectoryLeft
        """
        key = (topic, partition)
        log = self._logs.get(key)
        if log is not None:
            if topic_id is not None:
                self._assign_topic_id(log, topic_id)
            return log
        if not is_new and self.offline_directories:
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{topic}-{partition} may be in an offline directory: "
                f"{', '.join(self.offline_directories)}",
            )
        log = self.creation.create(key, config, topic_id, now_ms)
        self._logs[key] = log
        if not is_new:
            # Kafka creates it without a warning.
            paths = ", ".join(self.directories)
            self.descriptors.report(
                StorageEvent(
                    log.directory,
                    f"created empty: the replica is not new, and has no folder in {paths}; "
                    f"its records are lost unless a disk was not mounted",
                )
            )
        return log

    def sync_new_folders(self) -> list[SyncNewFolders]:
        """What makes the folders of logs durable that were created since the last call; the
        flush of such a log does that as well."""
        return [job for directory in self.online() for job in directory.sync_new_folders()]

    def _assign_topic_id(self, log: Log, topic_id: UUID) -> None:
        directory = self.directory_of(log)
        stored_id = directory.topic_ids.get(log.directory)
        if stored_id is not None and stored_id != topic_id:
            raise BrokerError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{log.directory} belongs to topic id {stored_id}, not {topic_id}",
            )
        if stored_id is None:
            try:
                write_topic_id(self.files, log.directory, topic_id)
            except OSError as error:
                refuse_when_full(directory, error)
                self.take_offline(directory, error)
                raise storage_error(directory) from error
            directory.note_topic_id(log.directory, topic_id)

    def logs_of(self, key: PartitionName) -> list[Log]:
        """The log of a partition, and its copy on its way to another directory."""
        return [log for log in (self._logs.get(key), self._future_logs.get(key)) if log]

    def set_aside(self, log: Log, unique: str, now_ms: int) -> None:
        """Take a log out; its directory is to be synced by the caller.

        unique  32 hexadecimal digits that were not used before for the partition
        raises  NoDirectoryLeft
        """
        directory = self.directory_of(log)
        folder = self._rename_aside(directory, log, unique, DELETE_FOLDER)
        if folder is not None:
            due_ms = now_ms + self._file_delete_delay_ms
            self.removals.add(due_ms, RemoveFolder(directory.path, folder))

    def is_unidentified(self, topic: str, partition: int) -> bool:
        """Whether the partition has a log here whose partition.metadata cannot be read."""
        log = self._logs.get((topic, partition))
        return log is not None and self.directory_of(log).is_unidentified(log)

    def set_aside_unidentified(self, topic: str, partition: int, *, unique: str) -> None:
        """Rename the folder of a log whose partition.metadata cannot be read, and that of its copy.

        The records may be of a deleted topic of the same name; replication compares epochs, and
        would not notice.  Call this before `create`, for replicas that are not in sync; what they
        have is in others too.  `-stray` folders are not touched again.

        unique  32 hexadecimal digits that were not used before
        raises  BrokerError KAFKA_STORAGE_ERROR; NoDirectoryLeft
        """
        key = (topic, partition)
        for each in self.logs_of(key):
            directory = self.directory_of(each)
            folder = self._rename_aside(directory, each, unique, STRAY_FOLDER)
            self._sync_renames(directory)
            if not directory.is_online:
                raise storage_error(directory)
            self.descriptors.report(
                StorageEvent(
                    each.directory,
                    f"is kept as {folder}, and the replica begins empty: its records may be of "
                    "an earlier topic, since partition.metadata cannot be read, and the replica "
                    "is not in sync",
                )
            )

    def _rename_aside(
        self, directory: LogDirectory, log: Log, unique: str, suffix: str
    ) -> str | None:
        """Take a log out; returns its folder, or None when the directory has failed."""
        folder = directory.file(suffixed_folder_name(log.topic, log.partition, unique, suffix))
        self._drop(directory, log)
        directory.forget((log.topic, log.partition))
        try:
            self.files.rename(log.directory, folder)
        except OSError as error:
            self.take_offline(directory, error)
            return None
        finally:
            log.abandon()
        return folder

    def _sync_renames(self, directory: LogDirectory) -> None:
        if not directory.is_online:
            return
        try:
            self.files.sync_directory(directory.path)
        except OSError as error:
            if is_out_of_descriptors(error):
                directory.note_unsynced(directory.path)
            else:
                self.take_offline(directory, error)

    def _drop(self, directory: LogDirectory, log: Log) -> None:
        """Take a log out of every table."""
        key = (log.topic, log.partition)
        for logs in (self._logs, self._future_logs):
            if logs.get(key) is log:
                del logs[key]
        directory.drop(log)

    # Moves between directories.

    def future(self, topic: str, partition: int) -> Log | None:
        """The copy of a log on its way to another directory."""
        return self._future_logs.get((topic, partition))

    def create_future(self, log: Log, path: str, *, unique: str, now_ms: int) -> Log | None:
        """An empty log that is to become a copy of `log`; None when the directory failed just now.

        path    of the directory, which is online
        unique  32 hexadecimal digits that were not used before
        raises  BrokerError KAFKA_STORAGE_ERROR (of which DirectoryFull); NoDirectoryLeft
        """
        directory = self.directories[path]
        key = (log.topic, log.partition)
        folder = directory.file(suffixed_folder_name(*key, unique, FUTURE_FOLDER))
        topic_id = self.directory_of(log).topic_ids.get(log.directory)
        future = self.creation.create_in(directory, folder, key, log.config, topic_id, now_ms)
        if future is not None:
            self._future_logs[key] = future
            directory.add_future(future)
        return future

    def delete_future(self, topic: str, partition: int, *, unique: str, now_ms: int) -> None:
        """Give the copy up."""
        future = self._future_logs.get((topic, partition))
        if future is not None:
            self.set_aside(future, unique, now_ms)

    def replace_with_future(self, log: Log, *, now_ms: int) -> Log | None:
        """Put the copy into the place of `log`, whose folder is removed later.

        Both end at the same offset.  The folder of `log` is renamed, for good, before that of the
        copy: of the two steps a crash leaves the first or both, and after the first one
        `finish_replacements` does the second one at the next start.

        returns  the log to use from now on; None when a directory has failed
        raises   NoDirectoryLeft
        cost     ten fsyncs, of which most have nothing to write when the copy was flushed before
        """
        key = log.topic, log.partition
        future = self._future_logs[key]
        assert future.end_offset == log.end_offset, "the copy is complete"
        source, target = self.directory_of(log), self.directory_of(future)
        high_watermark, end_offset = log.high_watermark, log.end_offset
        folder = target.file(folder_name(*key))
        topic_id = source.topic_ids.get(log.directory)
        try:
            if topic_id is not None and target.is_unidentified(future):
                write_topic_id(self.files, future.directory, topic_id)
            target.sync_new_folder(future.directory)
            future.close(now_ms)
        except OSError as error:
            self.take_offline(target, error)
            return None
        self._drop(target, future)
        self.set_aside(log, unique_of(future.directory), now_ms)
        if not source.is_online:
            return None
        try:
            self.files.sync_directory(source.path)
        except OSError as error:
            self.take_offline(source, error)
            return None
        try:
            self.files.rename(future.directory, folder)
            self.files.sync_directory(target.path)
            moved = open_log(
                self.files,
                folder,
                *key,
                log.config,
                log_start_offset=log.log_start_offset,
                recovery_point=end_offset,
                was_clean_shutdown=True,
                now_ms=now_ms,
                descriptors=self.descriptors,
            )
        except OSError as error:
            self.take_offline(target, error)
            return None
        # Snapshots keep neither all batches that may be sent again nor verifications.
        moved.head.replace_producers(log.producer_states)
        moved.advance_high_watermark(high_watermark)
        if topic_id is not None:
            target.note_topic_id(folder, topic_id)
        self._logs[key] = moved
        target.add(moved)
        return moved

    # Directories.

    def online(self) -> list[LogDirectory]:
        """The directories that are online, in the order of log.dirs."""
        return [directory for directory in self.directories.values() if directory.is_online]

    def directory_of(self, log: Log) -> LogDirectory:
        """The directory that holds a log."""
        return self.directories[log.directory.rpartition("/")[0]]

    def take_offline(self, directory: LogDirectory, error: Exception) -> None:
        """A directory has failed: its logs are not available until the broker is restarted.

        Also for callers that see one of its logs fail.  Nothing is retried; further calls for the
        same directory do nothing.

        raises  NoDirectoryLeft
        """
        if not directory.is_online:
            return
        failure = directory.fail(error)
        lost = directory.all_logs()
        for log in lost:
            self._drop(directory, log)
            log.abandon()
        self.removals.forget_directory(directory.path)
        directory.release()
        keys = tuple(dict.fromkeys((log.topic, log.partition) for log in lost))
        self._failures.append(DirectoryFailure(directory.path, failure, keys))
        if not self.online():
            raise NoDirectoryLeft(f"no directory of log.dirs is left; {directory.path}: {failure}")

    # End.

    def shutdown(self, *, now_ms: int) -> None:
        """Flush and close every log, write the checkpoints, then the marks of a clean shutdown.

        No job may be under way.  A directory where something fails gets no mark: its logs are
        checked at the next start; nor one with a log whose gaps (`Log.gaps`) are not
        explained yet.  One whose logs were not all opened gets its mark back if it had one
        (KAFKA-15375), and its checkpoints stay as they are, for they name logs that were not
        opened.

        cost  about five fsyncs per log
        """
        try:
            for directory in self.online():
                try:
                    self._close(directory, now_ms)
                except OSError as error:
                    self.take_offline(directory, error)
        except NoDirectoryLeft:
            return
        finally:
            self._release()

    def _close(self, directory: LogDirectory, now_ms: int) -> None:
        for log in directory.all_logs():
            log.close(now_ms)
        if not directory.is_loaded:
            if directory.was_clean_shutdown:
                write_clean_shutdown_mark(self.files, directory.path)
            return
        for job in directory.sync_new_folders():
            job.run(self.files)
        directory.write_now(directory.checkpoint_high_watermarks())
        directory.write_now(directory.checkpoints())
        gaps = {log: log.segment_gap for log in directory.all_logs()}
        for log, gap in gaps.items():
            if gap is not None:
                text = f"its gap at offset {gap.start_offset} is unexplained: checked at the start"
                self.descriptors.report(StorageEvent(log.directory, text))
        if not any(gaps.values()):
            write_clean_shutdown_mark(self.files, directory.path)

    def _release(self) -> None:
        for directory in self.directories.values():
            directory.release()

    def _identities(self) -> dict[str, MetaProperties]:
        return {d.path: d.meta for d in self.online() if d.meta is not None}
