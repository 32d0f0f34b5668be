"""Damaged coordination files: everything acknowledged is read, or the problem is reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.controller.coordination.embedded import EmbeddedTree
from odradek.controller.coordination.journal import encode_snapshot
from odradek.controller.coordination.session import SessionEvent
from odradek.controller.coordination.state_files import (
    CoordinationDamaged,
    find_files,
    journal_path,
    snapshot_path,
)
from odradek.controller.coordination.tree import Tree
from odradek.runtime.randomness import Randomness
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.testing.virtual_clock import VirtualClock
from tests.support.threads import at_once

FOLDER = "/data"
Content = dict[str, tuple[bytes | None, int]]


def ignore(_: SessionEvent) -> None:
    """For sessions without watches."""


def open_tree(files: MemoryFileSystem, *, entries_max: int = 1_000) -> EmbeddedTree:
    problems: list[str] = []
    tree = EmbeddedTree(files, FOLDER, VirtualClock(), journal_entries_max=entries_max)
    tree.serve(at_once, on_failure=problems.append, on_warning=problems.append)
    assert not problems
    return tree


def problem_of(files: MemoryFileSystem) -> str | None:
    """Why the tree cannot be read; None when it can."""
    try:
        EmbeddedTree(files, FOLDER, VirtualClock())
    except CoordinationDamaged as problem:
        return str(problem)
    return None


def content_of(tree: Tree) -> Content:
    return {path: (node.data, node.version) for path, node in tree.nodes.items() if not node.owner}


def grow(files: MemoryFileSystem, *, writes: int, entries_max: int, runs: int = 1) -> Content:
    """Several runs of a process; the last one is killed."""
    for run in range(runs):
        tree = open_tree(files, entries_max=entries_max)
        session = tree.connect(ignore)
        for number in range(writes):
            session.create(f"/run{run}-{number}", b"data" * number).result()
        if run + 1 < runs:
            tree.close()
    return content_of(tree.tree)


def copy_of(files: MemoryFileSystem) -> MemoryFileSystem:
    copied = MemoryFileSystem(folders=[FOLDER])
    for name in files.list(FOLDER):
        copied.open(f"{FOLDER}/{name}", create=True).append([files.read(f"{FOLDER}/{name}")])
    return copied


def flip(files: MemoryFileSystem, path: str, rng: Randomness) -> bool:
    content = bytearray(files.read(path))
    if content:
        content[rng.below(len(content))] ^= 1 << rng.below(8)
        files.open(path).write_at(0, bytes(content))
    return bool(content)


def cut(files: MemoryFileSystem, path: str, rng: Randomness) -> bool:
    size = files.size(path)
    if size:
        files.open(path).truncate(rng.below(size))
    return size > 0


def empty(files: MemoryFileSystem, path: str, rng: Randomness) -> bool:
    size = files.size(path)
    files.open(path).truncate(0)
    return size > 0


def remove(files: MemoryFileSystem, path: str, rng: Randomness) -> bool:
    files.remove(path)
    return True


def fill_with_garbage(files: MemoryFileSystem, path: str, rng: Randomness) -> bool:
    size = files.size(path)
    files.open(path).write_at(0, bytes(rng.below(256) for _ in range(size)))
    return size > 0


Damage = Callable[[MemoryFileSystem, str, Randomness], bool]
DAMAGES: tuple[Damage, ...] = (flip, cut, empty, remove, fill_with_garbage)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("writes", "entries_max", "runs"), [(40, 7, 1), (5, 1_000, 3), (23, 10, 2), (3, 1_000, 1)]
)
def test_one_damaged_file_loses_nothing_or_the_start_fails_with_its_name(
    damage: Damage, writes: int, entries_max: int, runs: int
) -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    whole = grow(files, writes=writes, entries_max=entries_max, runs=runs)
    snapshots, journals = find_files(files, FOLDER)
    rescued = 0
    for path in [file.path for file in (*snapshots, *journals)]:
        for seed in range(12):
            damaged = copy_of(files)
            if not damage(damaged, path, SeededRandomness(seed)):
                continue
            problem = problem_of(copy_of(damaged))
            if problem is not None:
                assert path in problem
                assert "odradek recover-metadata" in problem
                assert path == journals[-1].path or len(snapshots) < 2
                continue
            tree = open_tree(damaged)
            content = content_of(tree.tree)
            tree.tree.check()
            if path == journals[-1].path:
                # The end of the newest journal looks like what a crash leaves.
                assert content.items() <= whole.items()
                continue
            assert content == whole
            rescued += 1
            if snapshots and path == snapshots[-1].path and damage is not remove:
                assert path in tree.warnings[0]
                assert "nothing is lost" in tree.warnings[1]
            tree.close()
            assert content_of(open_tree(damaged).tree) == whole
    assert rescued or len(snapshots) == 0


@pytest.mark.parametrize("seed", range(40))
def test_several_damaged_files_never_result_in_an_older_tree_without_a_warning(seed: int) -> None:
    rng = SeededRandomness(seed)
    files = MemoryFileSystem(folders=[FOLDER])
    whole = grow(files, writes=12 + rng.below(30), entries_max=5 + rng.below(12), runs=2)
    snapshots, journals = find_files(files, FOLDER)
    candidates = [file.path for file in (*snapshots, *journals[:-1])]
    for path in candidates:
        if rng.below(2):
            DAMAGES[rng.below(len(DAMAGES))](files, path, rng)
    problem = problem_of(copy_of(files))
    if problem is None:
        assert content_of(open_tree(files).tree) == whole
    else:
        assert "odradek recover-metadata" in problem


def test_obsolete_snapshots_and_journals_are_removed() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    grow(files, writes=60, entries_max=5, runs=4)
    snapshots, journals = find_files(files, FOLDER)
    assert len(snapshots) == 2
    assert 2 <= len(journals) <= 3
    assert journals[0].number == snapshots[0].number + 1


def test_full_disk_during_a_fold_keeps_the_journals() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    problems: list[str] = []
    tree = EmbeddedTree(files, FOLDER, VirtualClock(), journal_entries_max=10)
    tree.serve(at_once, on_failure=problems.append, on_warning=problems.append)
    session = tree.connect(ignore)
    for number in range(9):
        session.create(f"/n{number}", b"x" * 200).result()
    # Space for more entries, not for a snapshot.
    files.capacity_bytes = files.used_bytes() + 1_500
    for number in range(4):
        session.set("/n0", b"%d" % number).result()
    assert len(problems) == 1
    assert "cannot be folded" in problems[0]
    assert find_files(files, FOLDER)[0] == []
    files.capacity_bytes = 1 << 40
    again = open_tree(files)
    assert len(again.tree.nodes) == 10
    assert again.tree.nodes["/n0"].data == b"3"


def test_files_without_numbers_are_read_as_the_oldest() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    whole = grow(files, writes=9, entries_max=1_000, runs=2)
    snapshots, journals = find_files(files, FOLDER)
    (snapshot,) = snapshots
    files.rename(snapshot.path, f"{FOLDER}/coordination.snapshot")
    files.rename(journals[-1].path, f"{FOLDER}/coordination.journal")
    files.remove(journals[0].path)
    tree = open_tree(files)
    assert content_of(tree.tree) == whole
    tree.connect(ignore).create("/later", b"").result()
    tree.close()
    assert files.exists(f"{FOLDER}/coordination.snapshot")
    again = open_tree(files)
    again.connect(ignore)
    again.close()
    assert not files.exists(f"{FOLDER}/coordination.snapshot")
    assert not files.exists(f"{FOLDER}/coordination.journal")
    assert content_of(open_tree(files).tree) == {**whole, "/later": (b"", 0)}


@pytest.mark.parametrize("damage", [flip, cut, empty, fill_with_garbage])
def test_damaged_snapshot_without_a_number_raises_coordination_damaged(damage: Damage) -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    tree = Tree()
    tree.open_session(1_000)
    files.open(f"{FOLDER}/coordination.snapshot", create=True).append([encode_snapshot(tree)])
    files.open(f"{FOLDER}/coordination.journal", create=True)
    damage(files, f"{FOLDER}/coordination.snapshot", SeededRandomness(1))
    with pytest.raises(CoordinationDamaged, match=r"/data/coordination\.snapshot "):
        open_tree(files)


def test_torn_end_of_the_journal_is_truncated_and_reported() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    session = open_tree(files).connect(ignore)
    session.create("/kept", b"1").result()
    path = journal_path(FOLDER, 1)
    size = files.size(path)
    session.create("/torn", b"2").result()
    whole = files.read(path)
    for end in range(size + 1, len(whole)):
        files.open(path).truncate(0)
        files.open(path).append([whole[:end]])
        again = open_tree(files)
        assert f"{end - size} bytes" in again.warnings[0]
        assert f"byte {size}" in again.warnings[0]
        assert sorted(again.tree.nodes) == ["/", "/kept"]


def test_damage_before_complete_entries_raises_and_truncates_nothing() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    session = open_tree(files).connect(ignore)
    path = journal_path(FOLDER, 1)
    size = files.size(path)
    session.create("/a", b"1").result()
    session.create("/b", b"2").result()
    content = bytearray(files.read(path))
    content[size + 12] ^= 1
    files.open(path).write_at(0, bytes(content))
    with pytest.raises(CoordinationDamaged, match=f"damaged at byte {size}"):
        open_tree(files)
    assert files.read(path) == bytes(content)


def test_missing_newest_journal_raises_coordination_damaged() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    grow(files, writes=4, entries_max=1_000, runs=2)
    snapshots, journals = find_files(files, FOLDER)
    files.remove(journals[-1].path)
    with pytest.raises(CoordinationDamaged, match=f"{journals[-1].path} is missing"):
        open_tree(files)
    assert journals[-1].path == journal_path(FOLDER, snapshots[-1].number + 1)
    assert snapshots[-1].path == snapshot_path(FOLDER, snapshots[-1].number)
