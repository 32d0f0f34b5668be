"""`odradek restore --from PLACE`: a backup into an empty cluster, with the same offsets.

    restore --bootstrap-server ...    creates the topics
    restore --to-log-dirs ...         on each machine, while its broker is stopped
    restore --bootstrap-server ...    compares offsets, commits those of groups, sets configs

Each may be repeated.  The topics are created with configs that keep every record, so that no
retention and no cleaning takes place before the logs have been compared with the backup; then they
get their own.  Exit codes: 0 success; 1 failure, with the reason on stderr; 2 an invalid command
line.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.arguments import APPEND, add_arguments
from odradek.tools.backup.backup_run import read_manifest
from odradek.tools.backup.command import PLACE, report_errors
from odradek.tools.backup.manifest import BackupError, Manifest, TopicBackup
from odradek.tools.backup.stores import Store, open_store
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.configs.resources import TOPIC, Resource, alter
from odradek.tools.consumer_groups.group_offsets import OffsetWithMetadata, commit
from odradek.tools.errors import KafkaError, partition_text, refused, timed_out
from odradek.tools.partition_offsets import list_offsets
from odradek.tools.run import run_tool
from odradek.tools.topics.requests import create_topics, new_topic


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek restore",
        description="Restore a backup into an empty cluster, with the same offsets: run it with "
        "--bootstrap-server, stop the brokers, run it with --to-log-dirs for each of them, start "
        "them, and run it with --bootstrap-server again.",
    )
    add_arguments(parser, "stored backup", {"--from": PLACE})
    add_arguments(parser, "restore", {"--topic": APPEND, "--replication-factor": int})
    return parser


def main(arguments: Sequence[str]) -> int:
    parser = build_parser()
    options = parser.parse_args(list(arguments))
    if (options.to_log_dirs is None) == (options.bootstrap_server is None):
        parser.error("name --bootstrap-server or --to-log-dirs")
    return run_tool(lambda _: report_errors(_restore, options), arguments)


def _restore(options: argparse.Namespace) -> int:
    store = open_store(options.place)
    manifest = _chosen(read_manifest(store), options.topic)
    if options.to_log_dirs is not None:
        return _restore_logs(store, manifest, options.to_log_dirs)
    with open_client(options.bootstrap_server, options.command_config) as client:
        topics = RestoredTopics(client, manifest)
        return _restore_topics(topics, options.replication_factor)


def _chosen(manifest: Manifest, names: Sequence[str] | None) -> Manifest:
    if names is None:
        return manifest
    for name in names:
        if name not in manifest.topics:
            raise BackupError(f"the backup has no topic {name}")
    topics = {name: topic for name, topic in manifest.topics.items() if name in names}
    return replace(manifest, topics=topics)


def _restore_logs(store: Store, manifest: Manifest, directories: str) -> int:
    from odradek.runtime.system_files import SystemFileSystem
    from odradek.tools.backup.restored_logs import RestoredLogs

    paths = [os.path.abspath(path) for path in directories.split(",") if path]
    began_s = time.monotonic()
    logs = RestoredLogs(SystemFileSystem(), store, manifest, list(dict.fromkeys(paths)))
    replicas = logs.restore(now_ms=time.time_ns() // 1_000_000)
    new = [replica for replica in replicas if not replica.is_restored]
    size_bytes = sum(replica.partition.size_bytes for replica in new)
    seconds = time.monotonic() - began_s
    print(
        f"{len(new)} logs restored, {len(replicas) - len(new)} were there already: {size_bytes} "
        f"bytes ({seconds:.1f} s, {size_bytes / 1e6 / max(seconds, 1e-3):.0f} MB/s)"
    )
    return 0


def _restore_topics(topics: RestoredTopics, replication_factor: int | None) -> int:
    states = topics.states()
    missing = [name for name, state in states.items() if state is TopicState.MISSING]
    if missing:
        is_new = topics.create(missing, replication_factor)
        if not is_new:
            return _restore_topics(topics, replication_factor)
        print(
            f"{len(missing)} topics created.  Now stop all brokers, run `odradek restore "
            "--to-log-dirs` with the log.dirs of each, start the brokers, and run this again."
        )
        return 0
    empty = [name for name, state in states.items() if state is TopicState.EMPTY]
    if empty:
        raise BackupError(
            f"the logs of {len(empty)} topics ({', '.join(empty[:5])}) are not restored: stop all "
            "brokers and run restore --to-log-dirs with the log.dirs of each"
        )
    topics.commit_offsets()
    topics.set_configs()
    print(f"{len(states)} topics have the offsets of the backup; groups and configs are restored.")
    return 0


HELD: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""Configs of a topic until its logs are compared with the backup."""


class TopicState(StrEnum):
    """What a cluster has of a topic."""

    MISSING = "missing"
    EMPTY = "empty"
    RESTORED = "restored"


class RestoredTopics:
    """Brings a cluster to the state of a backup, but for the logs."""

    def __init__(self, client: Client, manifest: Manifest) -> None:
        self._client = client
        self._manifest = manifest

    def states(self) -> dict[str, TopicState]:
        """The state of each topic.

        raises  BackupError for a topic with other records or partitions; ToolError
        """
        counts = {topic.name: len(topic.partitions) for topic in self._client.metadata().topics}
        states = {}
        for name, topic in self._manifest.topics.items():
            if name not in counts:
                states[name] = TopicState.MISSING
            elif counts[name] != len(topic.partitions):
                raise BackupError(
                    f"topic {name} exists with {counts[name]} partitions, the backup has "
                    f"{len(topic.partitions)}: delete it"
                )
            else:
                states[name] = self._state(name, topic)
        return states

    def _state(self, name: str, topic: TopicBackup) -> TopicState:
        places = [TopicPartition(name, row.partition) for row in topic.partitions]
        starts = list_offsets(self._client, places, EARLIEST_TIMESTAMP)
        ends = list_offsets(self._client, places, LATEST_TIMESTAMP)
        state = TopicState.RESTORED
        for place, row in zip(places, topic.partitions, strict=True):
            bounds = starts[place], ends[place]
            if bounds == (row.start_offset, row.end_offset):
                continue
            if bounds != (0, 0):
                raise BackupError(
                    f"{partition_text(place)} has offsets {bounds[0]} to {bounds[1]}, the backup "
                    f"{row.start_offset} to {row.end_offset}: a backup is restored into new topics"
                )
            state = TopicState.EMPTY
        return state

    def create(self, names: Sequence[str], replication_factor: int | None) -> bool:
        """Create topics whose configs keep every record.

        replication_factor  None: that of the backup, at most the number of brokers
        returns             False when all of them exist: the broker that was asked has just
                            started, and knows them now
        raises              ToolError
        """
        brokers = len(self._client.metadata([]).brokers)
        topics = [
            new_topic(
                name,
                len(topic.partitions),
                replication_factor or min(topic.replication_factor, brokers),
                configs={**topic.configs, **HELD},
            )
            for name, topic in self._manifest.topics.items()
            if name in names
        ]
        existing = []
        for topic in create_topics(self._client, topics):
            if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                existing.append(topic.name)
            elif topic.error_code:
                raise BackupError(
                    f"topic {topic.name}: {refused(topic.error_code, topic.error_message)}"
                )
        self._await_topics(existing)
        return len(existing) < len(names)

    def _await_topics(self, names: Sequence[str]) -> None:
        def attempt() -> bool | None:
            current = {topic.name for topic in self._client.metadata().topics}
            return True if current.issuperset(names) else None

        if self._client.retry(attempt) is None:
            raise timed_out("The brokers do not know topics that exist.")

    def commit_offsets(self) -> None:
        """Commit the offsets of all groups; those above the end of a log are lowered to it.

        raises  ToolError
        """
        ends = {place: row.end_offset for place, row in self._manifest.partitions()}
        for group, rows in self._manifest.groups.items():
            offsets = {}
            for row in rows:
                place = TopicPartition(row.topic, row.partition)
                if place in ends:
                    offsets[place] = OffsetWithMetadata(min(row.offset, ends[place]), row.metadata)
            if offsets:
                commit(self._client, group, offsets)

    def set_configs(self) -> None:
        """Give the topics their own configs; retention and cleaning go on from here.

        raises  ToolError
        """
        for name, topic in self._manifest.topics.items():
            held = [key for key in HELD if key not in topic.configs]
            try:
                alter(self._client, Resource(TOPIC, name), topic.configs, held)
            except KafkaError as error:
                raise BackupError(f"topic {name}: {error}") from error
