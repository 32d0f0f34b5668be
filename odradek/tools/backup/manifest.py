"""What a backup contains: `manifest.json`, the only file of it that is ever replaced.

    manifest.json                                     this
    segments/<run>/<topic>/<partition>/<base>.log     record batches, as a broker sent them

The files are written first and never changed; the manifest names those that count, each with its
size and SHA-256, and has a SHA-256 of itself.  So a run that is interrupted leaves the backup
before it as it was.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from odradek.bounded_parsing import UnreadableText, parse_json
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import ToolError


class BackupError(ToolError):
    """The backup cannot be written, read or restored; the message is one line."""


MANIFEST: Final = "manifest.json"
SEGMENTS: Final = "segments"
FORMAT: Final = "odradek-backup"
VERSION: Final = 1
BYTES_MAX: Final = 256 << 20
NO_EPOCH: Final = -1
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FILE: Final = re.compile(
    rf"{SEGMENTS}/[0-9]{{6}}-[0-9a-f]{{8}}/({_TOPIC.pattern})/([0-9]{{1,10}})/([0-9]{{20}})\.log"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """Record batches of one partition, one after the other."""

    name: str
    base_offset: int
    """The base offset of the first batch."""
    end_offset: int
    """Exclusive; where the next file goes on, also where compaction left a gap."""
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBackup:
    """The log of one partition."""

    partition: int
    start_offset: int
    """The log start offset; it may be inside the first batch, or below it."""
    end_offset: int
    """Exclusive: the last stable offset when it was read."""
    leader_epoch: int
    """The leader epoch of the last batch; NO_EPOCH when there was none."""
    files: tuple[BackupFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBackup:
    topic_id: str
    """The id in the cluster that was backed up; a topic that is created again has another one."""
    replication_factor: int
    configs: Mapping[str, str]
    """The topic's own, without what it inherits of its brokers."""
    partitions: tuple[PartitionBackup, ...]
    """By their numbers, from 0 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group has committed for a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of a backup."""

    number: int
    """The number of the run that wrote it, from 1 on."""
    cluster_id: str
    created_ms: int
    topics: Mapping[str, TopicBackup]
    groups: Mapping[str, tuple[CommittedOffset, ...]] = field(default_factory=dict)

    def partitions(self) -> Iterable[tuple[TopicPartition, PartitionBackup]]:
        """All partitions, in the order of the manifest."""
        for name, topic in self.topics.items():
            for partition in topic.partitions:
                yield TopicPartition(name, partition.partition), partition

    def file_names(self) -> set[str]:
        """The names of all files."""
        return {file.name for _, partition in self.partitions() for file in partition.files}

    def encode(self) -> bytes:
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return (json.dumps({**content, "sha256": _digest(content)}, indent=1) + "\n").encode()


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def decode_manifest(data: bytes) -> Manifest:
    """Read and check a manifest.

    raises  BackupError for one that is damaged, or of another version
    """
    try:
        content = parse_json(data, bytes_max=BYTES_MAX)
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise BackupError(
                f"{MANIFEST} is of format {content['format']!r:.40}, version "
                f"{content['version']!r:.40}; this release reads {FORMAT!r}, {VERSION}"
            )
        if content.pop("sha256") != _digest(content):
            raise BackupError(f"{MANIFEST} is damaged: its checksum differs")
        manifest = _manifest(content)
        _check(manifest)
    except UnreadableText as error:
        raise BackupError(f"{MANIFEST} is damaged: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BackupError(f"{MANIFEST} lacks a field, or one has another type") from error
    return manifest


def _manifest(content: Mapping[str, Any]) -> Manifest:
    return Manifest(
        number=int(content["number"]),
        cluster_id=str(content["cluster_id"]),
        created_ms=int(content["created_ms"]),
        topics={
            name: TopicBackup(
                topic_id=topic["topic_id"],
                replication_factor=int(topic["replication_factor"]),
                configs={key: str(value) for key, value in topic["configs"].items()},
                partitions=tuple(map(_partition, topic["partitions"])),
            )
            for name, topic in content["topics"].items()
        },
        groups={
            group: tuple(CommittedOffset(**row) for row in rows)
            for group, rows in content["groups"].items()
        },
    )


def _partition(content: Mapping[str, Any]) -> PartitionBackup:
    files = tuple(BackupFile(**row) for row in content["files"])
    return PartitionBackup(**{**content, "files": files})


def _check(manifest: Manifest) -> None:
    """Names lead to files below `segments` only, and offsets ascend; raises  ValueError."""
    for name, topic in manifest.topics.items():
        numbers = [partition.partition for partition in topic.partitions]
        if not _TOPIC.fullmatch(name) or name in (".", "..") or numbers != [*range(len(numbers))]:
            raise ValueError
    for place, partition in manifest.partitions():
        offset = 0
        for file in partition.files:
            match = _FILE.fullmatch(file.name)
            if match is None or (match[1], int(match[2])) != place or file.size_bytes < 0:
                raise ValueError
            if not offset <= file.base_offset < file.end_offset:
                raise ValueError
            offset = file.end_offset
        if not 0 <= partition.start_offset <= partition.end_offset or offset > partition.end_offset:
            raise ValueError
    for rows in manifest.groups.values():
        if any(row.offset < 0 for row in rows):
            raise ValueError
