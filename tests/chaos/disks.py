"""File systems of their own for the log directories of each broker, which can be filled.

Needs root.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NAMES: Final = ("data", "data-2")
SIZE: Final = "256m"
LARGEST_STEP: Final = 128 << 20
SMALLEST_STEP: Final = 4096
FILLER: Final = "lost+found"
"""A name that brokers pass over."""


class Disk:
    """One mounted directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Take all space that is left."""
        size, step = 0, LARGEST_STEP
        with open(self.path / FILLER, "wb") as file:
            while step >= SMALLEST_STEP:
                try:
                    os.posix_fallocate(file.fileno(), size, step)
                    size += step
                except OSError:
                    step //= 2

    @property
    def is_full(self) -> bool:
        """Whether no block is left."""
        return os.statvfs(self.path).f_bavail == 0

    def free(self) -> None:
        """Give the space back."""
        (self.path / FILLER).unlink()


@contextmanager
def disks(folder: Path, brokers: Sequence[int]) -> Iterator[Mapping[int, Sequence[Disk]]]:
    """Mounted at `folder/broker-N/data` and `folder/broker-N/data-2` for each broker."""
    made: dict[int, list[Disk]] = {}
    try:
        for broker_id in brokers:
            made[broker_id] = []
            for name in NAMES:
                path = folder / f"broker-{broker_id}" / name
                path.mkdir(parents=True)
                mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
                subprocess.run(mount, check=True)
                made[broker_id].append(Disk(path))
        yield made
    finally:
        for mounted in made.values():
            for disk in mounted:
                subprocess.run(["umount", "--lazy", str(disk.path)], check=False)
