"""`odradek recover-metadata [CONFIG] [--execute]`: metadata from the folders of the topics.

For a stopped broker whose coordination files are damaged or lost, or lack topics that have folders
in log.dirs.  Topic ids, partition counts, leader epochs and producer ids are read from the folders;
everything else from what is still readable in the coordination files.  Without `--execute` nothing
is written.  Records are never changed.

Exit codes: 0 done, or nothing to do; 1 the directories cannot be used (one line on stderr gives the
reason); 2 for a command line that cannot be parsed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from odradek.bounded_files import system_error_text
from odradek.tools.arguments import add_settings_arguments

if TYPE_CHECKING:
    from uuid import UUID

    from odradek.broker.settings.broker_settings import BrokerSettings
    from odradek.controller.coordination.salvage import Salvaged
    from odradek.controller.coordination.tree import Tree
    from odradek.controller.rebuild import RebuildReport, TopicOnDisk
    from odradek.runtime.files import FileSystem
    from odradek.storage.directories.folder_survey import FoundPartition, Survey
    from odradek.storage.directories.log_manager import LogManager

LINES_SHOWN_MAX = 1_000
"""Bound on the lines for changes, and on those for losses."""


class RecoveryRefused(Exception):
    """The directories cannot be used; the message is one line."""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek recover-metadata",
        description="Rebuild the metadata of a stopped broker from the folders of its topics. "
        "Without --execute it prints what it would write.",
    )
    add_settings_arguments(parser, "the server.properties file of the broker")
    parser.add_argument(
        "--execute",
        action="store_true",
        help="write the metadata; the existing coordination files are renamed",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    from odradek.broker.settings.load import load_settings
    from odradek.broker.settings.types import SettingsError
    from odradek.storage.checkpoints.meta_properties import MetaPropertiesError
    from odradek.storage.directories.log_directory import DirectoryInUse
    from odradek.storage.directories.log_manager import NoDirectoryLeft

    try:
        settings = load_settings(options.config, options.override)
        _recover(settings, is_executed=options.execute)
    except (
        DirectoryInUse,
        MetaPropertiesError,
        NoDirectoryLeft,
        OSError,
        RecoveryRefused,
        SettingsError,
    ) as error:
        text = system_error_text(error) if isinstance(error, OSError) else str(error)
        print(f"odradek: {text}", file=sys.stderr)
        return 1
    return 0


def _recover(settings: BrokerSettings, *, is_executed: bool) -> None:
    from odradek.runtime.clock import SystemClock
    from odradek.runtime.system_files import SystemFileSystem
    from odradek.storage.directories.log_manager import LogManager
    from odradek.storage.files.descriptors import Descriptors

    if settings.zookeeper_connect is not None:
        raise RecoveryRefused(
            "the metadata of this broker are in ZooKeeper (zookeeper.connect), not in its files"
        )
    files = SystemFileSystem()
    missing = [path for path in settings.log_dirs if not files.exists(path)]
    if missing:
        raise RecoveryRefused(f"there is no directory {missing[0]}")
    logs = LogManager(files, settings.log_dirs, Descriptors(files), file_delete_delay_ms=0)
    now_ms = SystemClock().now_ms()
    try:
        _recover_locked(settings, files, logs, now_ms, is_executed=is_executed)
    finally:
        # No log was opened: this releases the locks and writes nothing.
        logs.shutdown(now_ms=now_ms)


def _recover_locked(
    settings: BrokerSettings, files: FileSystem, logs: LogManager, now_ms: int, *, is_executed: bool
) -> None:
    from odradek.broker.node.node import FIRST_GENERATED_ID
    from odradek.controller.coordination.salvage import replace_all, salvage
    from odradek.controller.rebuild import DiskFindings, Rebuild
    from odradek.storage.checkpoints.meta_properties import (
        check_meta_properties,
        stored_broker_id,
        stored_cluster_id,
    )
    from odradek.storage.directories.folder_survey import survey

    identities = logs.open_directories()
    for failure in logs.take_failures():
        raise RecoveryRefused(f"{failure.path} cannot be used: {failure.reason}")
    configured = settings.broker_id if settings.broker_id >= 0 else None
    check_meta_properties(identities, broker_id=configured, cluster_id=None)
    stored_id = stored_broker_id(identities)
    broker_id = configured if configured is not None else stored_id
    surveyed = survey(files, settings.log_dirs)
    folder = settings.log_dirs[0]
    salvaged = salvage(files, folder)
    topics, conflicts = group_by_topic(surveyed, salvaged.tree)
    findings = _findings(salvaged, surveyed, conflicts)

    report = Rebuild(
        salvaged.tree,
        DiskFindings(
            broker_id=FIRST_GENERATED_ID if broker_id is None else broker_id,
            cluster_id=stored_cluster_id(identities),
            topics=topics,
            producer_id=max(
                (partition.producer_id for partition in surveyed.partitions), default=-1
            ),
        ),
        is_whole=salvaged.problem is None and salvaged.last_ms > 0,
        internal_config=partial(_internal_config, settings),
        now_ms=now_ms,
    ).run()
    if salvaged.problem is None and not report.changes:
        print("\n".join([*findings, "There is nothing to do."]))
        return
    print("\n".join(findings + _outcome(report, is_executed=is_executed)))
    if is_executed:
        aside = replace_all(files, folder, salvaged.tree, f".before-recovery-{now_ms}")
        for path in aside:
            print(f"set aside: {path}")
        print("The metadata are written; start the broker.")
    else:
        print("Nothing was written; --execute writes it.")


def _internal_config(settings: BrokerSettings, topic: str) -> Mapping[str, str] | None:
    """The config that an internal topic gets when it is first used; None for other topics."""
    from odradek.broker.auto_topic_creation import first_use_topic
    from odradek.controller.image.image import INTERNAL_TOPICS

    if topic not in INTERNAL_TOPICS:
        return None
    config = first_use_topic(topic, settings, broker_count=1).config
    return {key: value for key, value in config.items() if value is not None}


def group_by_topic(surveyed: Survey, tree: Tree) -> tuple[list[TopicOnDisk], list[str]]:
    """The topics of the folders, sorted by name; and the folders left out, each with the reason.

    When folders of one name have several topic ids, the id in `tree` is used, and folders of other
    ids are left out.
    """
    from odradek.controller.rebuild import TopicOnDisk
    from odradek.controller.znodes import zk_data

    by_name: dict[str, list[FoundPartition]] = {}
    for partition in surveyed.partitions:
        by_name.setdefault(partition.topic, []).append(partition)
    topics: list[TopicOnDisk] = []
    conflicts: list[str] = []
    for name in sorted(by_name):
        ids: dict[UUID, None] = {
            replica.topic_id: None for replica in by_name[name] if replica.topic_id is not None
        }
        node = tree.nodes.get(zk_data.topic_path(name))
        chosen = next(iter(ids), None)
        if len(ids) > 1:
            try:
                assignment = zk_data.TopicAssignmentZnode.decode(
                    None if node is None else node.data
                )
            except zk_data.BadZnode:
                chosen = None
            else:
                chosen = assignment.topic_id if assignment.topic_id in ids else None
            conflicts += (
                f"{replica.path} is left out: the folders of {name} have several topic ids, this "
                f"one has {replica.topic_id}; move those of the wrong id away"
                for replica in by_name[name]
                if chosen is None or replica.topic_id not in (None, chosen)
            )
            if chosen is None:
                continue
        epochs: dict[int, int] = {}
        for replica in by_name[name]:
            if replica.topic_id not in (None, chosen):
                continue
            if replica.partition in epochs:
                conflicts.append(f"{replica.path} exists twice; the broker will not start")
            epochs[replica.partition] = max(replica.leader_epoch, epochs.get(replica.partition, -1))
        topics.append(TopicOnDisk(name, chosen, epochs))
    return topics, conflicts


def _findings(salvaged: Salvaged, surveyed: Survey, conflicts: Sequence[str]) -> list[str]:
    lines: list[str] = []
    if salvaged.problem is not None:
        lines.append(f"coordination files: {salvaged.problem}")
    if salvaged.last_ms:
        last = datetime.fromtimestamp(salvaged.last_ms / 1_000, tz=UTC)
        extent = "whole" if salvaged.problem is None else "read as far as they can be"
        lines.append(
            f"coordination files: {extent}, the last change is of {last:%Y-%m-%d %H:%M:%S} UTC"
        )
    else:
        lines.append("coordination files: nothing can be read from them")
    topics = {partition.topic for partition in surveyed.partitions}
    size_bytes = sum(partition.size_bytes for partition in surveyed.partitions)
    lines.append(
        f"folders: {len(topics)} topics with {len(surveyed.partitions)} partitions, "
        f"{size_bytes:,} bytes of records"
    )
    problems = [*surveyed.problems, *conflicts]
    lines += [f"folders: {problem}" for problem in problems[:LINES_SHOWN_MAX]]
    return lines


def _outcome(report: RebuildReport, *, is_executed: bool) -> list[str]:
    verb = "restored" if is_executed else "would be restored"
    lines = [f"{verb}: {change}" for change in report.changes[:LINES_SHOWN_MAX]]
    lines += [f"lost: {loss}" for loss in report.losses[:LINES_SHOWN_MAX]]
    more = sum(
        max(0, len(entries) - LINES_SHOWN_MAX) for entries in (report.changes, report.losses)
    )
    if more:
        lines.append(f"... and {more} more lines like these")
    return lines
