"""A file system of its own for the data of each broker, which can be filled.  Needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SIZE: Final = "256m"
LARGEST_STEP: Final = 128 << 20
SMALLEST_STEP: Final = 4096
FILLER: Final = "lost+found"
"""A name that brokers pass over."""


class Disk:
    """One mounted directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self) -> None:
        """Take all space that is left."""
        size, step = 0, LARGEST_STEP
        with open(self._path / FILLER, "wb") as file:
            while step >= SMALLEST_STEP:
                try:
                    os.posix_fallocate(file.fileno(), size, step)
                    size += step
                except OSError:
                    step //= 2

    @property
    def is_full(self) -> bool:
        """Whether no block is left."""
        return os.statvfs(self._path).f_bavail == 0

    def free(self) -> None:
        """Give the space back."""
        (self._path / FILLER).unlink()


@contextmanager
def disks(folder: Path, brokers: Sequence[int]) -> Iterator[Mapping[int, Disk]]:
    """Mounted at `folder/broker-N/data` for each broker."""
    made: dict[int, Disk] = {}
    try:
        for broker_id in brokers:
            path = folder / f"broker-{broker_id}" / "data"
            path.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
            subprocess.run(mount, check=True)
            made[broker_id] = Disk(path)
        yield made
    finally:
        for broker_id in made:
            path = folder / f"broker-{broker_id}" / "data"
            subprocess.run(["umount", "--lazy", str(path)], check=False)
