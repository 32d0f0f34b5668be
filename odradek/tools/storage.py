"""`odradek storage`: the flags, lines and exit codes of `kafka-storage.sh` 3.9.

    random-uuid  print an id for a cluster
    format       write meta.properties into the directories of a node with process.roles
    info         print what the directories contain, and what does not fit

Exit codes: 0 success; 1 failure; 2 an invalid command line.
Differs from Kafka: a format writes no bootstrap.checkpoint and no snapshot of voters, which nothing
reads here, so the release and the features have no effect; directories are formatted in the order
of their names; a refusal has no stack trace; users that a formatted
directory of the metadata does not get are named on stderr.
Source: Kafka 3.9's StorageTool, Formatter.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from time import strftime
from typing import TYPE_CHECKING, Final

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.load import load_settings
from odradek.broker.settings.types import SettingsError, split_list
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.checkpoints.meta_properties import (
    KRAFT_VERSION,
    META_PROPERTIES_FILE,
    MetaProperties,
    MetaPropertiesError,
    meta_property_lines,
    read_meta_properties,
    write_meta_properties,
)
from odradek.tools.arguments import APPEND, add_arguments
from odradek.tools.errors import ToolError
from odradek.tools.run import run_tool

if TYPE_CHECKING:
    from odradek.broker.settings.quorum_config import QuorumConfig
    from odradek.tools.initial_scram_users import ScramUser

RELEASES: Final = {
    "3.0": "3.0-IV1",
    "3.1": "3.1-IV0",
    "3.2": "3.2-IV0",
    "3.3": "3.3-IV3",
    "3.4": "3.4-IV0",
    "3.5": "3.5-IV2",
    "3.6": "3.6-IV2",
    "3.7": "3.7-IV4",
    "3.8": "3.8-IV0",
    "3.9": "3.9-IV0",
}
"""Release -> its metadata.version, for releases that format for KRaft."""
_RELEASE: Final = re.compile(r"(?P<release>\d\.\d+)(?:\.\d+|-IV\d+)?")
_VOTER: Final = re.compile(r"(?P<id>\d{1,10})@[^@\s]+:\d{1,5}:(?P<directory>[\w-]{22})")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek storage", description="Format and describe the directories of a node."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="Describe the directories of this node.")
    formatting = commands.add_parser("format", help="Format the directories of this node.")
    commands.add_parser("random-uuid", help="Print a random UUID.")
    for command in (info, formatting):
        add_arguments(command, "storage")
    add_arguments(formatting, "storage format", {"--add-scram": APPEND, "--feature": APPEND})
    add_arguments(formatting.add_mutually_exclusive_group(), "storage quorum")
    return parser


def main(arguments: Sequence[str]) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    if options.command == "random-uuid":
        print(random_uuid())
        return 0
    try:
        settings = load_settings(options.config, [])
        if options.command == "info":
            return describe(settings)
        _run_format(settings, options)
    except SettingsError as error:
        print(f"odradek storage: {error.line}", file=sys.stderr)
        return 1
    except MetaPropertiesError as error:
        raise ToolError(str(error)) from error
    return 0


def random_uuid() -> str:
    """22 characters of base64url that do not begin with a dash, as Kafka's Uuid.randomUuid."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def directories_of(settings: BrokerSettings) -> tuple[list[str], str]:
    """(the directories in order, that of the metadata), as they are written in the settings."""
    raw = settings.raw
    folders = raw["log.dir"] if raw["log.dirs"] is None else raw["log.dirs"]
    log_dirs = [folder for folder in split_list(str(folders)) if folder]
    metadata = str(raw["metadata.log.dir"] or log_dirs[0])
    return sorted({*log_dirs, metadata}), metadata


def _run_format(settings: BrokerSettings, options: argparse.Namespace) -> None:
    quorum = _quorum_of(settings)
    release = metadata_version(options.release_version)
    voters = _initial_voters(settings, quorum, options)
    users: Sequence[ScramUser] = ()
    if options.add_scram:
        # Imported only here: it loads parts of the broker.
        from odradek.tools.initial_scram_users import parse_add_scram

        users = [parse_add_scram(argument) for argument in options.add_scram]
    format_directories(
        settings,
        options.cluster_id,
        ignores_formatted=options.ignore_formatted,
        release=release,
        voters=voters,
        users=users,
    )


def _quorum_of(settings: BrokerSettings) -> QuorumConfig:
    """raises  ToolError without process.roles"""
    if settings.quorum is None:
        raise ToolError(
            "The kafka configuration file appears to be for a legacy cluster. Formatting is only "
            "supported for clusters in KRaft mode."
        )
    return settings.quorum


def format_directories(
    settings: BrokerSettings,
    cluster_id: str,
    *,
    ignores_formatted: bool,
    release: str = RELEASES["3.9"],
    voters: Mapping[int, str] | None = None,
    users: Sequence[ScramUser] = (),
) -> None:
    """Write meta.properties into each directory that has none, and print each.

    ignores_formatted  directories that are formatted are left as they are, not refused
    voters             the directory ids of the controllers of a dynamic quorum, by node id
    users              stored when the directory of the metadata has no meta.properties; else those
                       that it does not have are named on stderr
    raises             ToolError, MetaPropertiesError; OSError, after which it can be repeated with
                       `ignores_formatted`
    """
    quorum = _quorum_of(settings)
    files = SystemFileSystem()
    directories, metadata = directories_of(settings)
    stored = {path: read_meta_properties(files, path) for path in directories}
    _verify(stored, cluster_id, quorum.node_id)
    formatted = [path for path in directories if stored[path] is not None]
    if formatted and not ignores_formatted:
        raise ToolError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore "
            "this directory and format the others."
        )
    if users and stored[metadata] is not None:
        _warn_of_missing_users(settings, users)
    if len(formatted) == len(directories):
        print("All of the log directories are already formatted.")
        return
    unformatted = [path for path in directories if stored[path] is None]
    for path in unformatted:
        os.makedirs(path, exist_ok=True)
    if users and stored[metadata] is None:
        from odradek.tools.initial_scram_users import store_initial_users

        # Before meta.properties: with it a repeated format would leave the users out.
        store_initial_users(settings.metadata_log_dir, users)
    for path in unformatted:
        kind, directory_id = "data directory", random_uuid()
        if path == metadata:
            kind = "metadata directory"
            if voters is not None:
                own = voters.get(quorum.node_id)
                kind = f"dynamic metadata {'' if own is None else 'voter '}directory"
                directory_id = own or directory_id
        print(f"Formatting {kind} {path} with metadata.version {release}.")
        write_meta_properties(
            files,
            path,
            MetaProperties(quorum.node_id, cluster_id, directory_id, KRAFT_VERSION),
            date=strftime("%a %b %d %H:%M:%S %Z %Y"),
        )


def _warn_of_missing_users(settings: BrokerSettings, users: Sequence[ScramUser]) -> None:
    """Name the users that a formatted directory of the metadata does not have, on stderr."""
    from odradek.tools.initial_scram_users import missing_users

    missing = missing_users(settings.metadata_log_dir, users)
    if missing:
        names = ", ".join(f"{user.name} ({user.mechanism})" for user in missing)
        print(
            f"odradek storage: {settings.metadata_log_dir} is already formatted, these users are "
            f"not stored: {names}. Store them with odradek configs.",
            file=sys.stderr,
        )


def metadata_version(release: str | None) -> str:
    """The metadata.version of a release; of the newest one without a release.

    raises  ToolError
    """
    if release is None:
        return RELEASES["3.9"]
    matched = _RELEASE.fullmatch(release)
    version = RELEASES.get(matched["release"]) if matched is not None else None
    if version is None:
        raise ToolError(f"Release {release} is not one of {', '.join(RELEASES)}.")
    return release if "-IV" in release else version


def _initial_voters(
    settings: BrokerSettings, quorum: QuorumConfig, options: argparse.Namespace
) -> dict[int, str] | None:
    """The directory ids of the controllers of a dynamic quorum; None for a static quorum.

    raises  ToolError
    """
    if options.standalone:
        if not quorum.is_controller:
            raise ToolError("You can only use --standalone on a controller.")
        return {quorum.node_id: random_uuid()}
    if options.initial_controllers is not None:
        voters: dict[int, str] = {}
        for text in split_list(options.initial_controllers):
            matched = _VOTER.fullmatch(text)
            if matched is None:
                raise ToolError(f"{text} of --initial-controllers is not id@host:port:directory-id")
            voters[int(matched["id"])] = matched["directory"]
        return voters
    is_static = bool(settings.raw["controller.quorum.voters"])
    if quorum.is_controller and not is_static and not options.no_initial_controllers:
        raise ToolError(
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


def _verify(stored: Mapping[str, MetaProperties | None], cluster_id: str, node_id: int) -> None:
    """Refuse directories of another cluster or node, in Kafka's words.

    raises  ToolError
    """
    for directory, meta in stored.items():
        if meta is None:
            continue
        path = f"{directory}/{META_PROPERTIES_FILE}"
        if meta.cluster_id not in (None, cluster_id):
            raise ToolError(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}"
            )
        if meta.broker_id not in (None, node_id):
            raise ToolError(
                f"Stored node id {meta.broker_id} doesn't match previous node id {node_id} in "
                f"{path}. If you moved your data, make sure your configured node id matches. If "
                "you intend to create a new node, you should remove all data in your data "
                "directories."
            )


def describe(settings: BrokerSettings) -> int:
    """Print the directories, the first meta.properties and the problems; the exit code."""
    files = SystemFileSystem()
    directories, _ = directories_of(settings)
    existing: list[str] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for path in directories:
        if not os.path.isdir(path):
            missing = "does not exist" if not os.path.exists(path) else "is not a directory"
            problems.append(f"{path} {missing}")
            continue
        existing.append(path)
        try:
            meta = read_meta_properties(files, path)
        except MetaPropertiesError as error:
            problems.append(f"Error loading {path}/{META_PROPERTIES_FILE}: {error}")
            continue
        if meta is None:
            problems.append(f"{path} is not formatted.")
        elif first is None:
            first = meta
        elif meta.cluster_id != first.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif meta.broker_id != first.broker_id:
            problems.append("Mismatched node IDs between storage directories.")
    if first is not None:
        problems += _mode_problems(first, is_kraft=settings.quorum is not None)
    _print_list("Found log directory:", "Found log directories:", existing)
    if first is not None:
        print(f"Found metadata: {{{', '.join(sorted(meta_property_lines(first)))}}}\n")
    _print_list("Found problem:", "Found problems:", problems)
    return 1 if problems else 0


def _mode_problems(meta: MetaProperties, *, is_kraft: bool) -> list[str]:
    is_formatted = meta.version == KRAFT_VERSION
    if is_kraft == is_formatted:
        return []
    settings, formatted = "a legacy cluster", "a cluster in KRaft mode"
    if is_kraft:
        settings, formatted = "a cluster in KRaft mode", "legacy mode"
    return [
        f"The kafka configuration file appears to be for {settings}, but the directories are "
        f"formatted for {formatted}."
    ]


def _print_list(title: str, plural: str, rows: Sequence[str]) -> None:
    """A title and its rows, and a blank line; nothing without rows."""
    if rows:
        print(title if len(rows) == 1 else plural)
        print("".join(f"  {row}\n" for row in rows))
