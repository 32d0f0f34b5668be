"""Writes the logs of a backup into the log directories of a stopped broker.

A log takes the place of the empty one that the broker has made when the topic was created.  All
logs are written into folders of their own first, whose names say that they are to be deleted: a
broker that starts after an interruption removes them.  Only when every file of the backup has
proved to be whole, folders are renamed.

What differs from the bytes of the backup: the leader epoch of each batch, which is not under its
checksum, is 0, as in any log of a new topic.  The producers are forgotten, as after
producer.id.expiration.ms: a new cluster gives their ids to other producers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Final, NamedTuple
from uuid import uuid4

from odradek.broker.settings.load import make_settings
from odradek.broker.settings.topic_config import topic_log_config
from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch, assign_offset
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.files import FileSystem
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
from odradek.storage.checkpoints.partition_metadata import PARTITION_METADATA_FILE
from odradek.storage.directories.log_directory import LOCK_FILE
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.files.names import (
    DELETE_FOLDER,
    LOG,
    folder_name,
    parse_file_name,
    parse_folder_name,
    suffixed_folder_name,
)
from odradek.storage.log.log import open_log
from odradek.storage.log_config import LogConfig
from odradek.tools.backup.manifest import BackupError, Manifest, PartitionBackup
from odradek.tools.backup.stores import Store, batches_of
from odradek.tools.errors import partition_text

LEADER_EPOCH: Final = 0
OPEN_MAX: Final = 64
APPEND_BYTES: Final = 1 << 20


class StoredReplica(NamedTuple):
    """A partition that is in the backup and has a folder."""

    place: TopicPartition
    partition: PartitionBackup
    directory: str
    """The element of log.dirs."""
    is_restored: bool

    @property
    def folder(self) -> str:
        return f"{self.directory}/{folder_name(*self.place)}"


class RestoredLogs:
    """What `restore --to-log-dirs` does."""

    def __init__(
        self, files: FileSystem, store: Store, manifest: Manifest, directories: Sequence[str]
    ) -> None:
        self._files = files
        self._store = store
        self._manifest = manifest
        self._directories = directories
        self._staged: list[tuple[StoredReplica, str]] = []
        self._cleaned: dict[PartitionName, int] = {}
        """Where the cleaning of logs with gaps goes on."""

    def restore(self, *, now_ms: int) -> list[StoredReplica]:
        """Restore every partition that has a folder; returns them all.

        raises  BackupError, OSError: no folder has changed, or the next call goes on
        """
        with self._locked():
            replicas = self._find()
            self._check_space(replicas)
            try:
                for replica in replicas:
                    if not replica.is_restored:
                        self._stage(replica, now_ms)
                self._put_in_place()
            finally:
                for _, folder in self._staged:
                    if self._files.exists(folder):
                        self._files.remove_tree(folder)
            for directory in self._directories:
                self._write_checkpoints(directory, replicas)
        return replicas

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with ExitStack() as stack:
            for directory in self._directories:
                if not self._files.is_directory(directory):
                    raise BackupError(f"there is no directory {directory}")
                try:
                    lock = self._files.lock(f"{directory}/{LOCK_FILE}")
                except BlockingIOError:
                    raise BackupError(
                        f"{directory} is in use: stop the broker before its logs are restored"
                    ) from None
                stack.callback(lock.release)
            yield

    def _find(self) -> list[StoredReplica]:
        partitions = dict(self._manifest.partitions())
        replicas: dict[TopicPartition, StoredReplica] = {}
        for directory in self._directories:
            for name in self._files.list(directory):
                parsed = parse_folder_name(name)
                if parsed is None or parsed.suffix:
                    continue
                place = TopicPartition(parsed.topic, parsed.partition)
                if place not in partitions or folder_name(*place) != name:
                    continue
                if place in replicas:
                    raise BackupError(f"{name} is in {directory} and in another directory")
                partition = partitions[place]
                is_restored = self._is_restored(f"{directory}/{name}", partition)
                replicas[place] = StoredReplica(place, partition, directory, is_restored)
        if not replicas:
            raise BackupError(
                "no folder of a topic of the backup is in "
                f"{', '.join(self._directories)}: create the topics first (restore "
                "--bootstrap-server), and name all directories of log.dirs"
            )
        return [replicas[place] for place in sorted(replicas)]

    def _is_restored(self, folder: str, partition: PartitionBackup) -> bool:
        """Whether this was done already; raises  BackupError for a log with other records."""
        size_bytes, last_base = 0, 0
        for name in self._files.list(folder):
            parsed = parse_file_name(name)
            if parsed is not None and parsed[1] == LOG:
                size_bytes += self._files.size(f"{folder}/{name}")
                last_base = max(last_base, parsed[0])
        if last_base == partition.end_offset and (size_bytes > 0) == bool(partition.files):
            return True
        if size_bytes or last_base:
            raise BackupError(f"{folder} has records already: logs are restored into empty ones")
        return False

    def _check_space(self, replicas: Sequence[StoredReplica]) -> None:
        needed: dict[int, int] = {}
        for replica in replicas:
            if not replica.is_restored:
                device = os.stat(replica.directory).st_dev
                needed[device] = needed.get(device, 0) + replica.partition.size_bytes
        for directory in self._directories:
            size_bytes = needed.get(os.stat(directory).st_dev, 0)
            _, usable_bytes = self._files.space(directory)
            if size_bytes > usable_bytes:
                raise BackupError(
                    f"{directory} has {usable_bytes} bytes left, the backup needs {size_bytes}"
                )

    def _stage(self, replica: StoredReplica, now_ms: int) -> None:
        topic, number = replica.place
        name = suffixed_folder_name(topic, number, uuid4().hex, DELETE_FOLDER)
        folder = f"{replica.directory}/{name}"
        self._files.make_directory(folder)
        self._staged.append((replica, folder))
        config = topic_log_config(make_settings({}), None, self._manifest.topics[topic].configs)
        batches = batches_of(self._store, replica.partition)
        try:
            cleaned = write_log(self._files, folder, replica, batches, config, now_ms)
        except BrokerError as error:
            raise BackupError(f"{partition_text(replica.place)}: {error}") from error
        if cleaned:
            self._cleaned[replica.place] = cleaned
        topic_id = f"{replica.folder}/{PARTITION_METADATA_FILE}"
        if self._files.exists(topic_id):
            self._files.replace(f"{folder}/{PARTITION_METADATA_FILE}", self._files.read(topic_id))
        self._files.sync_directory(folder)

    def _put_in_place(self) -> None:
        for replica, folder in self._staged:
            former = suffixed_folder_name(*replica.place, uuid4().hex, DELETE_FOLDER)
            self._files.rename(replica.folder, f"{replica.directory}/{former}")
            self._files.rename(folder, replica.folder)
            self._files.sync_directory(replica.directory)
            self._files.remove_tree(f"{replica.directory}/{former}")

    def _write_checkpoints(self, directory: str, replicas: Sequence[StoredReplica]) -> None:
        here = [replica for replica in replicas if replica.directory == directory]
        ends: dict[PartitionName, int] = {
            replica.place: replica.partition.end_offset for replica in here
        }
        starts: dict[PartitionName, int] = {
            replica.place: replica.partition.start_offset for replica in here
        }
        cleaned = {place: self._cleaned[place] for place in ends if place in self._cleaned}
        for name, offsets in (
            (RECOVERY_POINT_FILE, ends),
            (HIGH_WATERMARK_FILE, ends),
            (LOG_START_OFFSET_FILE, starts),
            (CLEANER_OFFSET_FILE, cleaned),
        ):
            path = f"{directory}/{name}"
            try:
                lines = read_offsets(self._files, path)
            except CorruptCheckpoint as error:
                raise BackupError(str(error)) from error
            self._files.replace(path, encode_offsets({**lines, **offsets}))


def write_log(
    files: FileSystem,
    folder: str,
    replica: StoredReplica,
    batches: Iterator[RecordBatch],
    config: LogConfig,
    now_ms: int,
) -> int:
    """Write a log with the offsets of its batches; it ends with an empty segment.

    returns  where the last batch ends that compaction has left a gap in or before, else 0: the log
             has been cleaned up to there
    raises  BrokerError, OSError; what `batches` raises
    """
    partition = replica.partition
    first = next(batches, None)
    next_offset = base_offset = partition.start_offset
    if first is not None:
        base_offset = min(base_offset, first.base_offset)
    log = open_log(
        files,
        folder,
        *replica.place,
        config,
        log_start_offset=base_offset,
        recovery_point=base_offset,
        was_clean_shutdown=False,
        now_ms=now_ms,
        descriptors=Descriptors(files, open_max=OPEN_MAX),
    )
    cleaned, data = 0, bytearray()
    try:
        for batch in chain([] if first is None else [first], batches):
            is_whole = batch.record_count == batch.last_offset_delta + 1
            if batch.base_offset > next_offset or not is_whole:
                cleaned = batch.next_offset
            next_offset = batch.next_offset
            position = len(data)
            data += batch.view
            with memoryview(data) as view:
                assign_offset(view[position:], batch.base_offset, LEADER_EPOCH)
            if len(data) >= APPEND_BYTES:
                log.append_as_follower(memoryview(data), now_ms=now_ms)
                data = bytearray()
        if data:
            log.append_as_follower(memoryview(data), now_ms=now_ms)
        log.producer_states.reset(partition.end_offset)
        log.head.roll(partition.end_offset, now_ms)
        log.advance_high_watermark(partition.end_offset)
        log.advance_log_start(partition.start_offset)
        log.close(now_ms)
    except BaseException:
        log.abandon()
        raise
    return cleaned
