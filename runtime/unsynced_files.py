"""Files of the host that are never synced, for data that are thrown away."""

from __future__ import annotations

import os

from odradek.runtime.files import File
from odradek.runtime.system_files import OPEN_FLAGS, SystemFile, SystemFileSystem


class UnsyncedFile(SystemFile):
    """A file whose content the kernel writes when it likes; the death of the process loses none."""

    __slots__ = ()

    def sync(self) -> None:
        """No system call."""


class UnsyncedFileSystem(SystemFileSystem):
    """The host's file system without waiting for its disk."""

    def open(self, path: str, *, create: bool = False) -> File:
        return UnsyncedFile(path, os.open(path, OPEN_FLAGS | (os.O_CREAT if create else 0), 0o644))

    def sync_directory(self, path: str) -> None:
        """No system call."""

    def _sync(self, fd: int) -> None:
        """No system call."""
