"""Files of the host that are never synced, for data that are thrown away."""

from __future__ import annotations

from odradek.runtime.system_files import SystemFile, SystemFileSystem


class UnsyncedFile(SystemFile):
    """A file whose content the kernel writes when it likes; the death of the process loses none."""

    __slots__ = ()

    def sync(self) -> None:
        """No system call."""


class UnsyncedFileSystem(SystemFileSystem):
    """The host's file system without waiting for its disk."""

    file_class = UnsyncedFile

    def sync_directory(self, path: str) -> None:
        """No system call."""

    def _sync(self, fd: int) -> None:
        """No system call."""
