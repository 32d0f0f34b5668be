"""`odradek check-log-dirs DIR...`: is what a stopped broker has on its disks what it promises?

Reads every byte of the directories of log.dirs and changes nothing: checksums and order of batches,
indexes, leader epochs, producer snapshots, checkpoints, leftovers.  For each finding it says what a
start does, which it knows from a trial start on an overlay.  A broker cannot start meanwhile,
unless there is no `.lock` file to lock.  Give all directories of a broker at once.

Exit codes: 0 nothing but notes; 1 a start repairs what is found, without the loss of a record;
2 the command line is wrong; 3 not checked: a broker runs, a directory cannot be read; 4 damage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.bounded_files import system_error_text
from odradek.tools.run import flush_or_discard

if TYPE_CHECKING:
    from odradek.controller.coordination.tree import Tree
    from odradek.runtime.files import FileSystem
    from odradek.storage.checking.findings import Verdict

NOT_CHECKED: Final = 3


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek check-log-dirs",
        description="Verify the log directories of a stopped broker; nothing is changed.",
        epilog="Exit codes: 0 clean, 1 a start repairs it without loss, 2 wrong usage, "
        "3 not checked, 4 damage.",
    )
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="every directory of the broker's log.dirs"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(arguments: Sequence[str]) -> int:
    parser = build_parser()
    options = parser.parse_args(list(arguments))
    if "" in options.directories:
        parser.error("a directory has no name")
    try:
        verdict = _check(options.directories)
    except Exception:  # noqa: BLE001 - Python would exit with 1, which says that nothing is lost
        traceback.print_exc()
        return NOT_CHECKED
    if verdict is None:
        return NOT_CHECKED
    text = json.dumps(as_json(verdict)) if options.json else "\n".join(lines(verdict))
    # Names of files need not be text.
    encoding = sys.stdout.encoding
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        flush_or_discard()
        if not isinstance(error, BrokenPipeError):
            print(f"odradek: {system_error_text(error)}", file=sys.stderr)
            return NOT_CHECKED
    return int(verdict.severity)


def _check(directories: Sequence[str]) -> Verdict | None:
    """Check them; None, with a line for the operator, when that is not possible."""
    from odradek.runtime.clock import SystemClock
    from odradek.runtime.read_only_files import ReadOnlyFileSystem
    from odradek.runtime.system_files import SystemFile
    from odradek.storage.checking.directories_check import check_directories, lock_directories
    from odradek.storage.directories.log_directory import DirectoryInUse

    paths = list(dict.fromkeys(os.path.abspath(path) for path in directories))
    files = ReadOnlyFileSystem()
    try:
        for path in paths:
            if not files.is_directory(path):
                raise NotADirectoryError(f"there is no directory {path}")
        locks = lock_directories(files, paths)
        try:
            with tempfile.TemporaryFile(mode="ab+", buffering=0) as spill:
                verdict = check_directories(
                    files, paths, SystemFile("spill", spill.fileno()), now_ms=SystemClock().now_ms()
                )
        finally:
            for lock in locks:
                lock.release()
    except (DirectoryInUse, OSError) as error:
        reason = system_error_text(error) if isinstance(error, OSError) else str(error)
        print(f"odradek: {reason}", file=sys.stderr)
        return None
    _check_coordination(files, paths, verdict)
    return verdict


def lines(verdict: Verdict) -> list[str]:
    """A line for each finding, the worst ones first, and the summary."""
    findings = sorted(verdict.findings, key=lambda finding: -finding.severity)
    printed = []
    for finding in findings:
        place = finding.path
        if finding.partition:
            place = f"{finding.partition}: {place}"
        if finding.offset is not None:
            place += f", offset {finding.offset}"
        printed.append(
            f"{finding.severity.name.lower()}: {place}: {finding.text} - a start: {finding.start}"
        )
    amount = verdict.amount
    counts = ", ".join(
        f"{sum(finding.severity == severity for finding in findings)} {name}"
        for severity, name in ((4, "damaged"), (1, "to be repaired"), (0, "notes"))
    )
    loss = f"; a start loses {verdict.lost_bytes} bytes" if verdict.lost_bytes else ""
    writes = f"; a start rewrites {verdict.rewritten_files} files" if findings else ""
    printed.append(
        f"{amount.directories} directories, {amount.logs} logs, {amount.segments} segments, "
        f"{amount.batches} batches, {amount.size_bytes} bytes: {counts}{loss}{writes}"
    )
    return printed


def as_json(verdict: Verdict) -> dict[str, object]:
    """The verdict as an object of JSON, for programs."""
    amount = verdict.amount
    return {
        "exit_code": int(verdict.severity),
        "directories": amount.directories,
        "logs": amount.logs,
        "segments": amount.segments,
        "batches": amount.batches,
        "bytes": amount.size_bytes,
        "lost_bytes": verdict.lost_bytes,
        "rewritten_files": verdict.rewritten_files,
        "findings": [
            {
                "severity": finding.severity.name.lower(),
                "kind": finding.kind,
                "partition": finding.partition or None,
                "offset": finding.offset,
                "path": finding.path,
                "text": finding.text,
                "start": finding.start,
            }
            for finding in verdict.findings
        ],
    }


def _check_coordination(files: FileSystem, paths: Sequence[str], verdict: Verdict) -> None:
    """The files of the embedded coordination, which are in the first directory of log.dirs."""
    from odradek.controller.coordination.salvage import damaged_files, salvage
    from odradek.controller.coordination.state_files import find_files
    from odradek.storage.checking.findings import START, Finding, Severity

    for path in paths:
        if not any(find_files(files, path)):
            continue
        salvaged = salvage(files, path)
        problem = salvaged.problem
        if problem is None:
            _check_cluster_id(files, paths, verdict, salvaged.tree)
        severity, start = (
            (Severity.REPAIR, "does without it: the other files have all of it")
            if problem is None
            else (Severity.DAMAGE, "refuses it; `odradek recover-metadata` rebuilds the metadata")
        )
        for text in damaged_files(files, path) if problem is None else (problem,):
            verdict.findings.append(
                Finding(
                    kind=START,
                    path=path,
                    text=f"coordination files: {text}",
                    severity=severity,
                    start=start,
                    is_final=True,
                )
            )


def _check_cluster_id(
    files: FileSystem, paths: Sequence[str], verdict: Verdict, tree: Tree
) -> None:
    """The directories belong to the cluster of the coordination files."""
    from odradek.controller.znodes.zk_data import CLUSTER_ID, decode_cluster_id
    from odradek.storage.checking.findings import IDENTITY, Finding, Severity
    from odradek.storage.checkpoints.meta_properties import (
        META_PROPERTIES_FILE,
        MetaPropertiesError,
        read_meta_properties,
    )

    node = tree.nodes.get(CLUSTER_ID)
    if node is None:
        return
    joined = decode_cluster_id(node.data)
    for path in paths:
        try:
            identity = read_meta_properties(files, path)
        except MetaPropertiesError:
            continue  # It is a finding already.
        if identity is None or identity.cluster_id in (None, joined):
            continue
        verdict.findings.append(
            Finding(
                kind=IDENTITY,
                path=f"{path}/{META_PROPERTIES_FILE}",
                text=f"belongs to cluster '{identity.cluster_id}', the coordination files are "
                f"those of cluster '{joined}'",
                severity=Severity.DAMAGE,
                start="refuses the directory",
                is_final=True,
            )
        )
