"""`odradek restore --from PLACE`: a backup into an empty cluster, with the same offsets.

    restore --bootstrap-server ...    creates the topics
    restore --to-log-dirs ...         on each machine, while its broker is stopped
    restore --bootstrap-server ...    compares offsets, commits those of groups, sets configs

Each may be repeated.  Exit codes: 0 success; 1 failure, with the reason on stderr; 2 an invalid
command line.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace

from odradek.tools.backup.backup_run import read_manifest
from odradek.tools.backup.command import add_cluster, add_place, report_errors
from odradek.tools.backup.errors import BackupError
from odradek.tools.backup.manifest import Manifest
from odradek.tools.backup.restored_topics import RestoredTopics, TopicState
from odradek.tools.backup.stores import Store, open_store
from odradek.tools.client_config import open_client
from odradek.tools.run import run_tool


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek restore",
        description="Restore a backup into an empty cluster, with the same offsets: run it with "
        "--bootstrap-server, stop the brokers, run it with --to-log-dirs for each of them, start "
        "them, and run it with --bootstrap-server again.",
    )
    add_place(parser, "from")
    add_cluster(parser, is_required=False)
    parser.add_argument(
        "--to-log-dirs",
        metavar="DIRS",
        help="log.dirs of a stopped broker, separated by commas: write the logs that belong there",
    )
    parser.add_argument(
        "--topic",
        action="append",
        metavar="TOPIC",
        help="only this topic (may be repeated; default: all of the backup)",
    )
    parser.add_argument(
        "--replication-factor",
        type=int,
        metavar="COUNT",
        help="of the new topics (default: that of the backup, at most the number of brokers)",
    )
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
