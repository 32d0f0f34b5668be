"""What the folders of a log directory say about topics, without opening a log.

Nothing is changed on the disk.  Of each partition: its topic's id (`partition.metadata`), the
greatest leader epoch (`leader-epoch-checkpoint` and the batches), and the greatest producer id
(`.snapshot` files and the batches after the newest of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final
from uuid import UUID

from odradek.protocol.records.batch import BATCH_OVERHEAD, MAGIC, NO_PRODUCER_ID, RecordBatch
from odradek.runtime.files import FileSystem
from odradek.storage.checkpoints.checkpoint_file import CorruptCheckpoint
from odradek.storage.checkpoints.leader_epochs import (
    LEADER_EPOCH_FILE,
    UNDEFINED_EPOCH,
    LeaderEpochs,
)
from odradek.storage.checkpoints.partition_metadata import (
    PARTITION_METADATA_FILE,
    CorruptPartitionMetadata,
    read_topic_id,
)
from odradek.storage.files.batch_scan import CorruptBatch, iterate_headers
from odradek.storage.files.names import (
    CLUSTER_METADATA_FOLDER,
    LOG,
    SNAPSHOT,
    file_name,
    folder_name,
    parse_file_name,
    parse_folder_name,
)
from odradek.storage.producers.producer_snapshot import CorruptSnapshot, decode_snapshot

PARTITION_MAX: Final = 100_000
"""No topic has more partitions; a folder such as `backup-20261125` is not a partition's."""


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """The folder of a partition."""

    topic: str
    partition: int
    path: str
    topic_id: UUID | None
    """None: the folder was made by a broker without topic ids, or the file cannot be read."""
    leader_epoch: int
    """-1: no batch, and no line in the checkpoint."""
    producer_id: int
    """-1: no idempotent producer has written to it."""
    size_bytes: int
    """Bytes of its `.log` files."""


@dataclass(slots=True)
class Survey:
    """What was found in the directories of log.dirs."""

    partitions: list[FoundPartition] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Folders that cannot be used, and files in them that could not be read."""


def survey(files: FileSystem, directories: Sequence[str]) -> Survey:
    """Look at every folder of a partition that a broker would serve.

    raises  OSError
    cost    3 us a batch in the segments after the newest producer snapshot, mostly the last one
    """
    result = Survey()
    for directory in directories:
        for name in files.list(directory):
            path = f"{directory}/{name}"
            folder = parse_folder_name(name)
            if folder is None or not files.is_directory(path):
                continue
            if folder.suffix or folder_name(folder.topic, folder.partition) != name:
                continue
            if name == CLUSTER_METADATA_FOLDER:
                continue
            if not _holds_partition(files, path) or folder.partition >= PARTITION_MAX:
                result.problems.append(f"{path} is left out: it is not the folder of a partition")
                continue
            topic_id = _read_topic_id(files, path, result.problems)
            result.partitions.append(
                _look(files, path, folder.topic, folder.partition, topic_id, result.problems)
            )
    return result


def _holds_partition(files: FileSystem, path: str) -> bool:
    """A crash may leave a folder with a topic id and no segment; what has neither is not a log."""
    return any(
        name == PARTITION_METADATA_FILE or parse_file_name(name) is not None
        for name in files.list_files(path).files
    )


def _read_topic_id(files: FileSystem, path: str, problems: list[str]) -> UUID | None:
    """A broker writes a file that cannot be read again, with the id that the metadata have."""
    try:
        return read_topic_id(files, path)
    except CorruptPartitionMetadata as error:
        problems.append(f"{path} takes the id of its topic from the metadata: {error}")
        return None


def _look(
    files: FileSystem,
    path: str,
    topic: str,
    partition: int,
    topic_id: UUID | None,
    problems: list[str],
) -> FoundPartition:
    segments: list[int] = []
    snapshots: list[int] = []
    size_bytes = 0
    for name in files.list_files(path).files:
        parsed = parse_file_name(name)
        if parsed is not None and parsed[1] == LOG:
            segments.append(parsed[0])
            size_bytes += files.size(f"{path}/{name}")
        elif parsed is not None and parsed[1] == SNAPSHOT:
            snapshots.append(parsed[0])
    producer_id, covered = _read_snapshots(files, path, sorted(snapshots), problems)
    leader_epoch = _read_epochs(files, path, problems)
    if leader_epoch == UNDEFINED_EPOCH:
        # Every batch says in which epoch it was written.
        covered = 0
    segments.sort()
    for base, following in zip_longest(segments, segments[1:]):
        if following is not None and following <= covered:
            continue
        epoch, identity = _scan(files, f"{path}/{file_name(base, LOG)}", problems)
        leader_epoch = max(leader_epoch, epoch)
        producer_id = max(producer_id, identity)
    return FoundPartition(topic, partition, path, topic_id, leader_epoch, producer_id, size_bytes)


def _read_snapshots(
    files: FileSystem, path: str, offsets: Sequence[int], problems: list[str]
) -> tuple[int, int]:
    """(greatest producer id, offset up to which the snapshots know all)."""
    greatest, covered = NO_PRODUCER_ID, 0
    for offset in offsets:
        name = f"{path}/{file_name(offset, SNAPSHOT)}"
        try:
            entries = decode_snapshot(files.read(name))
        except CorruptSnapshot as error:
            problems.append(f"{name} cannot be read: {error}; the batches are looked at instead")
            continue
        covered = max(covered, offset)
        greatest = max((greatest, *(entry.producer_id for entry in entries)))
    return greatest, covered


def _read_epochs(files: FileSystem, path: str, problems: list[str]) -> int:
    name = f"{path}/{LEADER_EPOCH_FILE}"
    if not files.exists(name):
        return UNDEFINED_EPOCH
    try:
        return LeaderEpochs.decode(files.read(name)).latest_epoch
    except CorruptCheckpoint as error:
        problems.append(f"{name} cannot be read: {error}; the batches are looked at instead")
        return UNDEFINED_EPOCH


def _scan(files: FileSystem, path: str, problems: list[str]) -> tuple[int, int]:
    """(greatest leader epoch, greatest producer id) of a segment, up to its first damaged batch."""
    leader_epoch, producer_id = UNDEFINED_EPOCH, NO_PRODUCER_ID
    file = files.open(path)
    try:
        for batch in iterate_headers(file, 0, file.size()):
            leader_epoch = max(leader_epoch, batch.leader_epoch)
            if batch.magic == MAGIC:
                header = file.read_at(batch.position, BATCH_OVERHEAD)
                producer_id = max(producer_id, RecordBatch(memoryview(header)).producer_id)
    except CorruptBatch as error:
        problems.append(f"{path}: {error}; what comes after it was not looked at")
    finally:
        file.close()
    return leader_epoch, producer_id
