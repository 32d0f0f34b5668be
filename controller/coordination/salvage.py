"""Damaged coordination files: read what is left of the tree, and replace them by another tree."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.controller.coordination.journal import decode_entries
from odradek.controller.coordination.server.passwords import SECRET
from odradek.controller.coordination.state_files import (
    CoordinationDamaged,
    find_files,
    journal_path,
    journal_problem,
    read_snapshot,
    read_tree,
    replay_entry,
    write_snapshot,
)
from odradek.controller.coordination.tree import Tree
from odradek.runtime.files import FileSystem


@dataclass(slots=True)
class Salvaged:
    """The part of a tree that could be read."""

    tree: Tree
    problem: str | None
    """Why the tree is incomplete; None when it is complete."""
    last_ms: int = 0
    """Time of the last change in the tree, milliseconds since 1970; 0 for an empty tree."""


def salvage(files: FileSystem, folder: str) -> Salvaged:
    """Read the newest state of the tree that can be read; changes nothing on the disk.

    raises  OSError
    """
    problem: str | None = None
    try:
        tree = read_tree(files, folder).tree
    except CoordinationDamaged as damaged:
        problem = damaged.problem
        tree = _salvage_damaged(files, folder)
    last_ms = max(node.mtime_ms for node in tree.nodes.values())
    return Salvaged(tree, problem, last_ms)


def damaged_files(files: FileSystem, folder: str) -> list[str]:
    """The damage of each file, also of those that the newest tree does not need.

    raises  OSError
    """
    snapshots, journals = find_files(files, folder)
    problems: list[str] = []
    for snapshot in snapshots:
        try:
            read_snapshot(files, snapshot)
        except CoordinationDamaged as damaged:
            problems.append(damaged.problem)
    for journal in journals:
        problem = journal_problem(files, journal, is_newest=journal is journals[-1])
        if problem is not None:
            problems.append(problem)
    return problems


def _salvage_damaged(files: FileSystem, folder: str) -> Tree:
    snapshots, journals = find_files(files, folder)
    best = Tree()
    for snapshot in (*reversed(snapshots), None):
        try:
            tree = Tree() if snapshot is None else read_snapshot(files, snapshot)
        except CoordinationDamaged:
            continue
        for journal in journals:
            for _, entry in decode_entries(files.read(journal.path)):
                if entry.zxid == tree.zxid + 1:
                    replay_entry(tree, entry)
        if tree.zxid > best.zxid:
            best = tree
    return best


def replace_all(files: FileSystem, folder: str, tree: Tree, suffix: str) -> list[str]:
    """Write a tree, and rename all files that were there; returns their new paths.

    The zxid of the tree becomes greater than that of every file.
    suffix  is appended to the names of the former files
    raises  OSError; may be repeated then
    """
    snapshots, journals = find_files(files, folder)
    former = [*snapshots, *journals]
    tree.skip_zxids(max([tree.zxid, *(file.number for file in former)]) + 1)
    files.open(journal_path(folder, tree.zxid + 1), create=True).close()
    write_snapshot(files, folder, tree)
    aside: list[str] = []
    paths = [file.path for file in former]
    # Session ids begin again: no client may resume the session of another one.
    if files.exists(f"{folder}/{SECRET}"):
        paths.append(f"{folder}/{SECRET}")
    for path in paths:
        aside.append(f"{path}{suffix}")
        files.rename(path, aside[-1])
    files.sync_directory(folder)
    return aside
