"""Creates the folders and logs of partitions, in the directory that has the fewest.

What cannot be created here may be created elsewhere, and two folders of one partition stop the next
start: a folder that was half made is removed before another one is made.
Source: Kafka's LogManager.getOrCreateLog, nextLogDirs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.checkpoint_file import PartitionName
from odradek.storage.checkpoints.partition_metadata import write_new_topic_id
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.files.disk_errors import is_out_of_descriptors, is_temporary
from odradek.storage.files.names import folder_name
from odradek.storage.log.log import Log, open_log
from odradek.storage.log_config import LogConfig

PREFERRED_MAX: Final = 10_000


class DirectoryFull(BrokerError):
    """The disk is too full for a new log (KAFKA_STORAGE_ERROR); the directory stays online."""


class LogCreation:
    """Knows where logs are to be created, and what is left of those that could not be.

    directories   by path, in the order of log.dirs
    take_offline  called with a directory that has failed
    """

    def __init__(
        self,
        files: FileSystem,
        directories: Mapping[str, LogDirectory],
        descriptors: Descriptors,
        take_offline: Callable[[LogDirectory, Exception], None],
    ) -> None:
        self._files = files
        self._directories = directories
        self._descriptors = descriptors
        self._take_offline = take_offline
        self._preferred: dict[PartitionName, str] = {}
        """Directories in which logs are to be created that are not here yet."""
        self._half_made: dict[PartitionName, LogDirectory] = {}
        """Folders of logs that could not be created, and not be removed either."""

    def prefer_directory(self, topic: str, partition: int, path: str) -> None:
        """Create the log of this partition in this directory, when it is created; at most
        `PREFERRED_MAX` are remembered."""
        if len(self._preferred) < PREFERRED_MAX:
            self._preferred[topic, partition] = path

    def create(
        self, key: PartitionName, config: LogConfig, topic_id: UUID | None, now_ms: int
    ) -> Log:
        """A new log in the first directory that is neither full nor fails.

        raises  BrokerError KAFKA_STORAGE_ERROR (of which DirectoryFull); NoDirectoryLeft
        """
        # A line that a deleted log of the same name left in a checkpoint would make a crash skip
        # the check of this one's batches.
        for directory in self._online():
            try:
                directory.write_now(directory.checkpoints_naming(key))
            except OSError as error:
                refuse_when_full(directory, error)
                self._take_offline(directory, error)
        self._remove_half_made(key)
        full: DirectoryFull | None = None
        preferred = self._preferred.pop(key, None)
        for directory in sorted(
            self._online(), key=lambda each: (each.path != preferred, each.partition_count())
        ):
            folder = directory.file(folder_name(*key))
            try:
                log = self.create_in(directory, folder, key, config, topic_id, now_ms)
            except DirectoryFull as error:
                if key in self._half_made:
                    # A second folder of the partition would stop the next start.
                    raise
                full = full or error
                continue
            if log is not None:
                directory.add(log)
                return log
        if full is not None:
            raise full
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "no directory of log.dirs is online")

    def create_in(
        self,
        directory: LogDirectory,
        folder: str,
        key: PartitionName,
        config: LogConfig,
        topic_id: UUID | None,
        now_ms: int,
    ) -> Log | None:
        """Create a log in `folder`; returns None when that failed and took the directory offline.

        raises  BrokerError KAFKA_STORAGE_ERROR (of which DirectoryFull); NoDirectoryLeft
        """
        try:
            self._files.make_directory(folder)
        except OSError as error:
            refuse_when_full(directory, error)
            self._take_offline(directory, error)
            return None
        try:
            if topic_id is not None:
                write_new_topic_id(self._files, folder, topic_id)
            log = open_log(
                self._files,
                folder,
                *key,
                config,
                log_start_offset=0,
                recovery_point=0,
                was_clean_shutdown=False,
                now_ms=now_ms,
                descriptors=self._descriptors,
            )
        except OSError as error:
            # The partition may be made elsewhere now, and two folders of it stop the next start.
            self._half_made[key] = directory
            with contextlib.suppress(BrokerError):
                self._remove_half_made(key)
            refuse_when_full(directory, error)
            self._take_offline(directory, error)
            raise storage_error(directory) from error
        directory.note_new_folder(folder)
        if topic_id is not None:
            directory.note_topic_id(folder, topic_id)
        return log

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories.values() if directory.is_online]

    def _remove_half_made(self, key: PartitionName) -> None:
        directory = self._half_made.get(key)
        if directory is None:
            return
        folder = directory.file(folder_name(*key))
        try:
            if self._files.exists(folder):
                self._files.remove_tree(folder)
                # Its topic may be deleted next, and no one removes what a power cut brings back.
                self._files.sync_directory(directory.path)
        except OSError as error:
            if directory.is_online:
                refuse_when_full(directory, error)
                self._take_offline(directory, error)
        del self._half_made[key]


def refuse_when_full(directory: LogDirectory, error: OSError) -> None:
    """A full disk has not failed: what is there works on, and space may come back.  The same
    holds for descriptors.

    raises  DirectoryFull
    """
    if is_temporary(error):
        why = "cannot be written now" if is_out_of_descriptors(error) else "is full"
        raise DirectoryFull(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path} {why}: {error}"
        ) from error


def storage_error(directory: LogDirectory) -> BrokerError:
    """What a request gets that needs a directory which has failed."""
    return BrokerError(
        ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path} is offline: {directory.failure}"
    )
