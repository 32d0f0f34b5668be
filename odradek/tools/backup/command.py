"""`odradek backup TOPIC... --to PLACE` and `odradek backup verify --from PLACE`.

Exit codes: 0 success; 1 failure, or a topic that could not be brought up to date while the others
were; 2 an invalid command line.  The reason is on stderr.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from odradek.tools.arguments import APPEND, add_arguments
from odradek.tools.backup.backup_run import BackupRun, read_manifest
from odradek.tools.backup.live_logs import LogReader
from odradek.tools.backup.manifest import BackupError, Manifest
from odradek.tools.backup.stores import MissingFile, Store, batches_of, first_difference, open_store
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.errors import ToolError, partition_text
from odradek.tools.run import run_tool

VERIFY: Final = "verify"


PLACE: Final = {"dest": "place"}


def build_parser() -> argparse.ArgumentParser:
    """The command line of `odradek backup`."""
    parser = argparse.ArgumentParser(
        prog="odradek backup",
        description="Back up topics: records as they are stored, configs, committed offsets. "
        "`odradek backup verify --from PLACE` checks a backup; a topic of the name verify "
        "follows after `--`.",
    )
    add_arguments(parser, "backup", {"topics": {"nargs": "*"}, "--to": PLACE, "--group": APPEND})
    return parser


def build_verify_parser() -> argparse.ArgumentParser:
    """The command line of `odradek backup verify`."""
    parser = argparse.ArgumentParser(
        prog=f"odradek backup {VERIFY}",
        description="Check every file and every batch of a backup; with --bootstrap-server, also "
        "that the topics of a cluster have the same records at the same offsets.",
    )
    add_arguments(parser, "stored backup", {"--from": PLACE})
    return parser


def main(arguments: Sequence[str]) -> int:
    words = list(arguments)
    is_verify = words[:1] == [VERIFY]
    parser = build_verify_parser() if is_verify else build_parser()
    options = parser.parse_args(words[1:] if is_verify else words)
    if not is_verify and options.all == bool(options.topics):
        parser.error("name topics, or --all")
    return run_tool(lambda _: report_errors(_verify if is_verify else _back_up, options), words)


def report_errors(act: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Act; an error is one line on stderr, and exit code 1."""
    try:
        return act(options)
    except ToolError as error:
        print(f"odradek: {error}", file=sys.stderr)
        return 1


def _back_up(options: argparse.Namespace) -> int:
    store = open_store(options.place)
    former: Manifest | None = None
    with suppress(MissingFile):
        former = read_manifest(store)
    if former is not None and not options.incremental:
        raise BackupError(
            f"{options.place} has a backup already: --incremental adds to it, or name another place"
        )
    began_s = time.monotonic()
    with open_client(options.bootstrap_server, options.command_config) as client:
        run = BackupRun(
            client,
            store,
            topics=None if options.all else list(dict.fromkeys(options.topics)),
            groups=options.group,
            former=former,
            replaces=options.replace,
            report=lambda line: print(line, file=sys.stderr),
        )
        manifest = run.run(now_ms=time.time_ns() // 1_000_000)
    print(_summary(manifest, run.written_bytes, time.monotonic() - began_s))
    for problem in run.problems:
        print(f"odradek: {problem}", file=sys.stderr)
    return 1 if run.problems else 0


def _summary(manifest: Manifest, written_bytes: int, seconds: float) -> str:
    partitions = [partition for _, partition in manifest.partitions()]
    size_bytes = sum(partition.size_bytes for partition in partitions)
    rate = written_bytes / 1e6 / max(seconds, 1e-3)
    return (
        f"{len(manifest.topics)} topics, {len(partitions)} partitions, {len(manifest.groups)} "
        f"groups: {size_bytes} bytes, of which {written_bytes} are new ({seconds:.1f} s, "
        f"{rate:.0f} MB/s)"
    )


def _verify(options: argparse.Namespace) -> int:
    store = open_store(options.place)
    manifest = read_manifest(store)
    count = 0
    for _, partition in manifest.partitions():
        for _ in batches_of(store, partition):
            count += 1
    size_bytes = sum(partition.size_bytes for _, partition in manifest.partitions())
    print(f"{len(manifest.file_names())} files with {count} batches, {size_bytes} bytes: whole")
    if options.bootstrap_server is None:
        return 0
    with open_client(options.bootstrap_server, options.command_config) as client:
        differences = compare(client, store, manifest)
    for difference in differences:
        print(f"odradek: {difference}", file=sys.stderr)
    if not differences:
        print("The cluster has the same records at the same offsets.")
    return 1 if differences else 0


def compare(client: Client, store: Store, manifest: Manifest) -> list[str]:
    """Where a cluster differs from a backup, a line each; what it has after its end is not read.

    raises  BackupError, ToolError, OSError
    """
    ids: dict[str | None, UUID] = {topic.name: topic.topic_id for topic in client.metadata().topics}
    differences = []
    for place, partition in manifest.partitions():
        if place.topic not in ids:
            differences.append(f"{partition_text(place)} does not exist")
            continue
        reader = LogReader(client, place, ids[place.topic])
        start_offset, end_offset = reader.bounds()
        if start_offset != partition.start_offset or end_offset < partition.end_offset:
            differences.append(
                f"{partition_text(place)} has offsets {start_offset} to {end_offset}, the backup "
                f"{partition.start_offset} to {partition.end_offset}"
            )
            continue
        live = reader.batches(start_offset, partition.end_offset)
        offset = first_difference(batches_of(store, partition), live)
        if offset is not None:
            differences.append(f"{partition_text(place)} differs from offset {offset} on")
    return differences
