"""The host's file system without a single change: for tools that look at the data of a broker."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import NoReturn

from odradek.runtime.files import File, FileLock
from odradek.runtime.system_files import SystemFile, SystemFileSystem


class SharedFileLock:
    """Locks of a reader: brokers, which take exclusive ones, are refused while it is held."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class ReadOnlyFileSystem(SystemFileSystem):
    """Opens files for reading; every change raises EROFS, also where the host would allow it."""

    def open(self, path: str, *, create: bool = False) -> File:
        if create:
            _refuse(path)
        return SystemFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def lock(self, path: str) -> FileLock:
        """Lock as `FileSystem.lock` does, shared; raises FileNotFoundError without a file."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BaseException:
            os.close(fd)
            raise
        return SharedFileLock(fd)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        _refuse(path)

    def make_directory(self, path: str) -> None:
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_tree(self, path: str) -> None:
        _refuse(path)

    def replace(self, path: str, data: bytes) -> None:
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
