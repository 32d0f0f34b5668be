"""One run of `odradek backup`: reads topics and groups, writes files, and the manifest at the end.

An incremental run keeps the files of the runs before it.  A topic that was deleted, created again
or truncated since keeps what the backup has of it, until `--replace` allows otherwise.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from odradek.protocol.messages.metadata import MetadataResponseTopic
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.backup.live_logs import LogReader
from odradek.tools.backup.manifest import (
    BYTES_MAX,
    MANIFEST,
    NO_EPOCH,
    SEGMENTS,
    BackupError,
    BackupFile,
    CommittedOffset,
    Manifest,
    PartitionBackup,
    TopicBackup,
    decode_manifest,
)
from odradek.tools.backup.stores import MissingFile, Store
from odradek.tools.client import Client
from odradek.tools.configs.resources import TOPIC, Resource, describe
from odradek.tools.consumer_groups.group_offsets import committed_of
from odradek.tools.consumer_groups.queries import list_groups
from odradek.tools.errors import KafkaError, check, partition_text


class LiveLog(NamedTuple):
    """The log of a partition as its leader describes it.

    epoch_end  where the leader epoch of the last batch of the backup ends (OffsetForLeaderEpoch);
               None: that was not asked for; negative: the leader has no such epoch
    """

    start_offset: int
    end_offset: int
    epoch_end: int | None = None


class Continuation(NamedTuple):
    """How to bring the backup of a partition up to date.

    lost  how many offsets the log has deleted before they were backed up
    """

    kept: tuple[BackupFile, ...]
    read_from: int
    lost: int = 0


class Diverged(NamedTuple):
    """The log does not have what the backup has; the reason is one line."""

    reason: str


def begin(live: LiveLog) -> Continuation:
    """Back up the whole log."""
    return Continuation((), live.start_offset)


def go_on(former: PartitionBackup, live: LiveLog) -> Continuation | Diverged:
    """Read what was appended since; drop files that are below the log start offset.

    source  a consumer's detection of truncation (KIP-320)
    """
    if live.end_offset < former.end_offset:
        return Diverged(
            f"it ends at offset {live.end_offset}, the backup at {former.end_offset}: it was "
            "truncated"
        )
    is_there = live.start_offset < former.end_offset and former.leader_epoch != NO_EPOCH
    if is_there and live.epoch_end is not None and live.epoch_end < former.end_offset:
        what = (
            f"its leader epoch {former.leader_epoch} ends at offset {live.epoch_end}"
            if live.epoch_end >= 0
            else f"it has no leader epoch {former.leader_epoch}"
        )
        return Diverged(f"{what}, the backup at {former.end_offset}: it was truncated")
    return Continuation(
        tuple(file for file in former.files if file.end_offset > live.start_offset),
        max(former.end_offset, live.start_offset),
        max(0, live.start_offset - former.end_offset),
    )


FILE_BYTES_MAX: Final = 128 << 20
"""A file is ended before the batch that would make it larger."""


def read_manifest(store: Store) -> Manifest:
    """The manifest of a backup.

    raises  MissingFile when there is no backup; BackupError, OSError
    """
    data = bytearray()
    for chunk in store.read(MANIFEST):
        data += chunk
        if len(data) > BYTES_MAX:
            raise BackupError(f"{MANIFEST} has more than {BYTES_MAX} bytes")
    return decode_manifest(bytes(data))


class BackupRun:
    """Brings a backup up to date.

    topics    their names; None: all that are not internal
    groups    whose offsets are kept; None: all that have committed offsets of the topics
    former    the manifest that this run replaces, None for a new backup
    replaces  back up again from the start what was created again, or truncated
    report    called with lines for the operator
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        *,
        topics: Sequence[str] | None,
        groups: Sequence[str] | None,
        former: Manifest | None,
        replaces: bool,
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._store = store
        self._topics = topics
        self._groups = groups
        self._former = former
        self._replaces = replaces
        self._report = report
        self._number = 1 if former is None else former.number + 1
        self._folder = f"{SEGMENTS}/{self._number:06d}-{secrets.token_hex(4)}"
        self.written_bytes = 0
        self.problems: list[str] = []
        """What could not be brought up to date; the rest was."""

    def run(self, *, now_ms: int) -> Manifest:
        """Write what is missing, then the manifest, then remove what it does not need any more.

        raises  BackupError, ToolError, OSError: the backup is as it was
        """
        live = self._live_topics()
        # Before the records: what was committed is in the backup then.
        committed = self._committed(live)
        topics = dict(self._kept_topics(live))
        for name, topic in live.items():
            topics[name] = self._topic(topic, topics.get(name))
        metadata = self._client.metadata([])
        manifest = Manifest(
            number=self._number,
            cluster_id=metadata.cluster_id or "",
            created_ms=now_ms,
            topics={name: topics[name] for name in sorted(topics)},
            groups=self._merged(committed, live),
        )
        self._publish(manifest)
        return manifest

    def _live_topics(self) -> dict[str, MetadataResponseTopic]:
        named = self._topics
        topics = {
            topic.name: topic for topic in self._client.metadata().topics if topic.name is not None
        }
        if named is None:
            return {name: topics[name] for name in sorted(topics) if not topics[name].is_internal}
        former = {} if self._former is None else self._former.topics
        for name in named:
            if name not in topics and name not in former:
                raise BackupError(f"topic {name} does not exist")
            if name in topics and topics[name].is_internal:
                raise BackupError(
                    f"{name} is internal: committed offsets are backed up with the topics"
                )
        return {name: topics[name] for name in sorted(named) if name in topics}

    def _kept_topics(self, live: Iterable[str]) -> Iterable[tuple[str, TopicBackup]]:
        """What the backup has; what was asked for and does not exist any more is a problem."""
        if self._former is None:
            return
        for name, topic in self._former.topics.items():
            yield name, topic
            if name not in live and (self._topics is None or name in self._topics):
                self.problems.append(f"topic {name} does not exist any more: its backup stays")

    def _committed(self, topics: Iterable[str]) -> dict[str, tuple[CommittedOffset, ...]]:
        names = [group.group_id for group in list_groups(self._client)]
        if self._groups is not None:
            missing = [group for group in self._groups if group not in names]
            if missing:
                raise BackupError(f"group {missing[0]} does not exist")
            names = list(self._groups)
        committed: dict[str, tuple[CommittedOffset, ...]] = {}
        for group, rows in committed_of(self._client, names).items():
            if isinstance(rows, KafkaError):
                raise BackupError(f"group {group}: {rows}")
            kept = tuple(
                CommittedOffset(
                    topic=place.topic,
                    partition=place.partition,
                    offset=row.offset,
                    metadata=row.metadata,
                )
                for place, row in sorted(rows.items())
                if place.topic in topics
            )
            if kept or self._groups is not None:
                committed[group] = kept
        return committed

    def _merged(
        self, committed: Mapping[str, tuple[CommittedOffset, ...]], live: Iterable[str]
    ) -> dict[str, tuple[CommittedOffset, ...]]:
        """With what the backup has of topics that this run does not read."""
        groups = dict(committed)
        for group, rows in () if self._former is None else self._former.groups.items():
            kept = tuple(row for row in rows if row.topic not in live)
            if kept and (self._groups is None or group in self._groups):
                groups[group] = (*kept, *groups.get(group, ()))
        return {group: groups[group] for group in sorted(groups)}

    def _topic(self, live: MetadataResponseTopic, former: TopicBackup | None) -> TopicBackup:
        assert live.name is not None, "the response names the topic"
        check(live)
        if former is not None and former.topic_id != str(live.topic_id):
            if not self._replaces:
                self.problems.append(
                    f"topic {live.name} was deleted and created again: its backup stays; "
                    "--replace backs up the new one in its place"
                )
                return former
            former = None
        logs = {} if former is None else {row.partition: row for row in former.partitions}
        return TopicBackup(
            topic_id=str(live.topic_id),
            replication_factor=max(len(row.replica_nodes) for row in live.partitions),
            configs={
                entry.name: entry.value
                for entry in describe(self._client, Resource(TOPIC, live.name))
                if entry.value is not None
            },
            partitions=tuple(
                self._partition(TopicPartition(live.name, index), live.topic_id, logs.get(index))
                for index in range(len(live.partitions))
            ),
        )

    def _partition(
        self, place: TopicPartition, topic_id: UUID, former: PartitionBackup | None
    ) -> PartitionBackup:
        reader = LogReader(self._client, place, topic_id)
        log = LiveLog(*reader.bounds())
        decision: Continuation | Diverged
        if former is None:
            decision = begin(log)
        else:
            if former.leader_epoch != NO_EPOCH:
                log = log._replace(epoch_end=reader.epoch_end(former.leader_epoch))
            decision = go_on(former, log)
        if isinstance(decision, Diverged):
            problem = f"{partition_text(place)}: {decision.reason}"
            if not self._replaces:
                self.problems.append(
                    f"{problem}; its backup stays; --replace backs it up from its start"
                )
                assert former is not None, "only what was backed up can diverge"
                return former
            self._report(f"{problem}; it is backed up from its start")
            former, decision = None, begin(log)
        if decision.lost:
            self._report(
                f"{partition_text(place)}: {decision.lost} offsets below {log.start_offset} were "
                "deleted before they were backed up"
            )
        epoch = NO_EPOCH if former is None else former.leader_epoch

        def batches(first_offset: int = decision.read_from) -> Iterator[RecordBatch]:
            nonlocal epoch
            for batch in reader.batches(first_offset, log.end_offset):
                epoch = batch.leader_epoch
                yield batch

        folder = f"{self._folder}/{place.topic}/{place.partition}"
        files = _write_files(self._store, folder, batches())
        self.written_bytes += sum(file.size_bytes for file in files)
        return PartitionBackup(
            partition=place.partition,
            start_offset=log.start_offset,
            end_offset=log.end_offset,
            leader_epoch=epoch,
            files=(*decision.kept, *files),
        )

    def _publish(self, manifest: Manifest) -> None:
        """Replace the manifest, then remove files that neither it nor a run under way needs."""
        with suppress(MissingFile):
            if read_manifest(self._store).number >= self._number:
                raise BackupError("another run has changed the backup meanwhile")
        file = self._store.create(MANIFEST)
        try:
            file.write(manifest.encode())
            file.commit()
        except BaseException:
            file.discard()
            raise
        needed = manifest.file_names()
        for name in self._store.names(SEGMENTS):
            run = name.removeprefix(f"{SEGMENTS}/").partition("-")[0]
            if name not in needed and run.isdecimal() and int(run) < self._number:
                self._store.remove(name)


def _write_files(store: Store, folder: str, batches: Iterable[RecordBatch]) -> list[BackupFile]:
    """Write the batches of one partition into files of at most FILE_BYTES_MAX."""
    files: list[BackupFile] = []
    file: _OpenFile | None = None
    try:
        for batch in batches:
            if file is not None and file.size_bytes + batch.size > FILE_BYTES_MAX:
                files.append(file.commit())
                file = None
            if file is None:
                file = _OpenFile(store, folder, batch.base_offset)
            file.add(batch)
        if file is not None:
            files.append(file.commit())
            file = None
    finally:
        if file is not None:
            file.writer.discard()
    return files


class _OpenFile:
    def __init__(self, store: Store, folder: str, base_offset: int) -> None:
        self._name = f"{folder}/{base_offset:020d}.log"
        self._base_offset = self._end_offset = base_offset
        self.writer = store.create(self._name)
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def add(self, batch: RecordBatch) -> None:
        self._digest.update(batch.view)
        self.writer.write(batch.view)
        self.size_bytes += batch.size
        self._end_offset = batch.next_offset

    def commit(self) -> BackupFile:
        self.writer.commit()
        return BackupFile(
            name=self._name,
            base_offset=self._base_offset,
            end_offset=self._end_offset,
            size_bytes=self.size_bytes,
            sha256=self._digest.hexdigest(),
        )
