"""The secret of session passwords beside the tree."""

from __future__ import annotations

from odradek.controller.coordination.salvage import replace_all
from odradek.controller.coordination.server.passwords import SECRET, load_passwords
from odradek.controller.coordination.tree import Tree
from odradek.runtime.randomness import SystemRandomness
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.seeded_randomness import SeededRandomness

FOLDER = "/data"
PATH = f"{FOLDER}/{SECRET}"
RANDOM = SystemRandomness()


def test_passwords_are_the_same_after_a_power_cut() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    first = load_passwords(files, FOLDER, RANDOM)
    files.crash(SeededRandomness(1))
    again = load_passwords(files, FOLDER, RANDOM)
    assert first.password(7) == again.password(7)
    assert again.matches(7, first.password(7))


def test_password_is_one_of_its_session_and_its_tree() -> None:
    passwords, others = (
        load_passwords(MemoryFileSystem(folders=[FOLDER]), FOLDER, RANDOM) for _ in range(2)
    )
    assert not passwords.matches(8, passwords.password(7))
    assert not passwords.matches(7, others.password(7))
    assert not passwords.matches(7, None)


def test_damaged_secret_is_replaced() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    before = load_passwords(files, FOLDER, RANDOM).password(7)
    files.replace(PATH, b"short")
    assert not load_passwords(files, FOLDER, RANDOM).matches(7, before)
    assert len(files.read(PATH)) == 32


def test_rebuilt_tree_has_another_secret_since_its_session_ids_begin_again() -> None:
    files = MemoryFileSystem(folders=[FOLDER])
    before = load_passwords(files, FOLDER, RANDOM).password(7)
    assert f"{PATH}.old" in replace_all(files, FOLDER, Tree(), ".old")
    assert not load_passwords(files, FOLDER, RANDOM).matches(7, before)
