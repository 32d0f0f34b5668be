"""A file system that is slow, full, or cannot sync, as a test asks for."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from time import sleep
from typing import Final

from odradek.runtime.files import Bytes, File, FileLock, FileSystem, FolderListing

SLOW_MAX_MS: Final = 60_000


@dataclass(slots=True)
class DiskFaults:
    """full      the folder in which nothing can be written
    failed_sync  the folder in which no sync succeeds
    slow         the folder in which each read, write and sync takes `slow_ms` longer

    None: no folder.
    """

    full: str | None = None
    failed_sync: str | None = None
    slow: str | None = None
    slow_ms: int = 0

    def heal(self) -> None:
        """Have none of these faults."""
        self.full = self.failed_sync = self.slow = None

    def strike(self, folder: str, *, is_full: bool, fails_syncs: bool, slow_ms: int) -> None:
        """Have these faults in one folder, and no others.

        slow_ms  0: it is as fast as ever
        """
        self.full = folder if is_full else None
        self.failed_sync = folder if fails_syncs else None
        self.slow = folder if slow_ms else None
        self.slow_ms = slow_ms

    def before_read(self, path: str) -> None:
        """Called by every thread that reads."""
        if is_in(path, self.slow):
            sleep(self.slow_ms / 1_000)

    def before_write(self, path: str) -> None:
        """raises  OSError when there is no space left"""
        self.before_read(path)
        if is_in(path, self.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def before_sync(self, path: str) -> None:
        """raises  OSError when it fails"""
        self.before_read(path)
        if is_in(path, self.failed_sync):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)


def is_in(path: str, folder: str | None) -> bool:
    """Whether a path is that of a folder or of something in it."""
    return folder is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))


class FaultyFile:
    """A file of a `FaultyFileSystem`."""

    __slots__ = ("_faults", "_file", "path")

    def __init__(self, file: File, faults: DiskFaults) -> None:
        self._file = file
        self._faults = faults
        self.path = file.path

    def size(self) -> int:
        return self._file.size()

    def read_at(self, position: int, size: int) -> bytes:
        self._faults.before_read(self.path)
        return self._file.read_at(position, size)

    def append(self, chunks: Sequence[Bytes]) -> int:
        self._faults.before_write(self.path)
        return self._file.append(chunks)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._faults.before_sync(self.path)
        self._file.sync()

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


class FaultyFileSystem:
    """Another file system with faults."""

    def __init__(self, files: FileSystem, faults: DiskFaults) -> None:
        self._files = files
        self._faults = faults

    def open(self, path: str, *, create: bool = False) -> File:
        if create and not self._files.exists(path):
            self._faults.before_write(path)
        return FaultyFile(self._files.open(path, create=create), self._faults)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def is_directory(self, path: str) -> bool:
        return self._files.is_directory(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def modified_ms(self, path: str) -> int:
        return self._files.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._files.set_modified_ms(path, modified_ms)

    def list(self, path: str) -> list[str]:
        return self._files.list(path)

    def list_files(self, path: str) -> FolderListing:
        return self._files.list_files(path)

    def make_directory(self, path: str) -> None:
        if not self._files.exists(path):
            self._faults.before_write(path)
        self._files.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._files.rename(source, target)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def remove_tree(self, path: str) -> None:
        self._files.remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self._faults.before_sync(path)
        self._files.sync_directory(path)

    def lock(self, path: str) -> FileLock:
        return self._files.lock(path)

    def read(self, path: str) -> bytes:
        self._faults.before_read(path)
        return self._files.read(path)

    def replace(self, path: str, data: bytes) -> None:
        self._faults.before_write(path)
        self._faults.before_sync(path)
        self._files.replace(path, data)

    def space(self, path: str) -> tuple[int, int]:
        total, usable = self._files.space(path)
        return total, 0 if is_in(path, self._faults.full) else usable
