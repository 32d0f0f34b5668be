"""What a cut leaves of the changes that no sync has followed: every kind that a disk allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.memory_nodes import RandomOutcome
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from tests.cuts.scene import Cut

Cutting = Callable[[MemoryFileSystem, int], None]
"""(files, seed): cut there; the files are as a start finds them then."""


KILLED_WITHIN: Final = "killed within a write"


@dataclass
class FixedOutcome:
    """A `CrashOutcome` without chance."""

    keeps_names: bool
    kept: Callable[[int, int], int]
    """(number of the file among those with changes, from 1; how many changes): how many of them."""
    is_zeros: bool = False
    """A torn write has its whole size, and no data in its second half."""
    torn_part: int = 0
    """Quarters of the torn write that are durable."""
    files_count: int = 0

    def is_name_kept(self) -> bool:
        """The same for all."""
        return self.keeps_names

    def changes_kept(self, count: int) -> int:
        """As `kept`."""
        if not count:
            return 0
        self.files_count += 1
        return self.kept(self.files_count, count)

    def torn(self, size: int) -> tuple[int, bool]:
        """As `torn_part`."""
        return size * self.torn_part // 4, self.is_zeros


def _all(number: int, count: int) -> int:
    return count


def _none(number: int, count: int) -> int:
    return 0


def _but_the_last(number: int, count: int) -> int:
    return count - 1


def _odd_files(number: int, count: int) -> int:
    return count if number % 2 else 0


def _even_files(number: int, count: int) -> int:
    return 0 if number % 2 else count


def _fixed(
    kept: Callable[[int, int], int],
    *,
    keeps_names: bool,
    is_zeros: bool = False,
    torn_part: int = 0,
) -> Cutting:
    def cut(files: MemoryFileSystem, seed: int) -> None:
        files.crash_into(FixedOutcome(keeps_names, kept, is_zeros=is_zeros, torn_part=torn_part))

    return cut


def _random(files: MemoryFileSystem, seed: int) -> None:
    files.crash(SeededRandomness(seed))


def _random_names(files: MemoryFileSystem, seed: int) -> None:
    """All data is there, of the names a prefix in each folder."""

    class Outcome(RandomOutcome):
        def changes_kept(self, count: int) -> int:
            return count

    files.crash_into(Outcome(SeededRandomness(seed)))


VARIANTS: Final[dict[str, Cutting]] = {
    "killed": lambda files, seed: files.kill(),
    "unsynced lost": _fixed(_none, keeps_names=False),
    "last writes torn": _fixed(_but_the_last, keeps_names=True, torn_part=2),
    "last writes zeros": _fixed(_but_the_last, keeps_names=True, torn_part=1, is_zeros=True),
    "data, no names": _fixed(_all, keeps_names=False),
    "names, no data": _fixed(_none, keeps_names=True),
    "names, zeros": _fixed(_none, keeps_names=True, is_zeros=True),
    "odd files": _fixed(_odd_files, keeps_names=True),
    "even files": _fixed(_even_files, keeps_names=True),
    "some names": _random_names,
    "random": _random,
}


def files_after(cut: Cut, variant: str, seed: int) -> MemoryFileSystem | None:
    """What a start finds; None: the variant does not apply here."""
    files = cut.files.copied()
    if variant != KILLED_WITHIN:
        VARIANTS[variant](files, seed)
        return files
    if cut.torn_write is None:
        return None
    path, size = cut.torn_write
    file = files.open(path)
    file.truncate(file.size() - size // 2)
    files.kill()
    return files
