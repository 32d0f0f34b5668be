"""Files and folders of the host."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Final

from odradek.runtime.files import Bytes, File, FileLock, FolderListing

OPEN_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_IOV_MAX = os.sysconf("SC_IOV_MAX")


class SystemFile:
    """A descriptor that is open for reading and appending."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Read as `File.read_at` does; repeats short reads."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            data = os.pread(self._fd, size - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def append(self, chunks: Sequence[Bytes]) -> int:
        """One write or writev; a short write is continued, so that its error is raised."""
        if len(chunks) == 1:
            total = len(chunks[0])
            written = os.write(self._fd, chunks[0])
        else:
            total = sum(map(len, chunks))
            written = os.writev(self._fd, chunks[:_IOV_MAX])
        if written != total:
            self._append_rest(chunks, written)
        return total

    def _append_rest(self, chunks: Sequence[Bytes], written: int) -> None:
        for chunk in chunks:
            if written >= len(chunk):
                written -= len(chunk)
                continue
            rest = memoryview(chunk)[written:]
            written = 0
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """fdatasync: content and size, not times."""
        os.fdatasync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


_locked_inodes: dict[tuple[int, int], None] = {}
"""(device, inode) of the files that this process has locked.  No other descriptor of one is opened:
closing it would drop the record lock."""


class SystemFileLock:
    """A record lock and a flock, on a descriptor that stays open until `release`.

    The JVM locks with fcntl(F_SETLK), which on Linux is independent of flock: only the record lock
    excludes an Apache Kafka broker.  It is dropped when any descriptor of the file is closed in
    this process; the flock is not.  A forked child does not inherit the record lock, and a child
    that runs another program not the descriptor.
    """

    def __init__(self, fd: int, inode: tuple[int, int]) -> None:
        self._fd = fd
        self._inode = inode
        _locked_inodes[inode] = None

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            del _locked_inodes[self._inode]
            os.close(fd)


class SystemFileSystem:
    """The host's file system."""

    file_class: type[SystemFile] = SystemFile
    """The class of its open files."""

    def open(self, path: str, *, create: bool = False) -> File:
        fd = os.open(path, OPEN_FLAGS | (os.O_CREAT if create else 0), 0o644)
        return self.file_class(path, fd)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def list_files(self, path: str) -> FolderListing:
        listing = FolderListing([], [])
        with os.scandir(path) as entries:
            for entry in entries:
                (listing.files if _is_file(entry) else listing.others).append(entry.name)
        listing.files.sort()
        listing.others.sort()
        return listing

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except (FileExistsError, FileNotFoundError):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        # Imported at its first use: it takes 2 ms of a start.
        from shutil import rmtree

        rmtree(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> FileLock:
        while True:
            with contextlib.suppress(FileNotFoundError):
                if _inode(os.stat(path)) in _locked_inodes:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Apache Kafka removes its lock file when it stops: the file that was locked may no
                # longer be the one at the path.
                with contextlib.suppress(FileNotFoundError):
                    inode = _inode(os.fstat(fd))
                    if inode == _inode(os.stat(path)):
                        return SystemFileLock(fd, inode)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, data: bytes) -> None:
        aside = path + ".tmp"
        try:
            with open(aside, "wb") as file:
                file.write(data)
                file.flush()
                self._sync(file.fileno())
            os.replace(aside, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            if error.filename is not None:
                raise
            # A write or a sync names no path.
            raise OSError(error.errno, error.strerror, path) from None
        self.sync_directory(os.path.dirname(path))

    def _sync(self, fd: int) -> None:
        os.fsync(fd)

    def space(self, path: str) -> tuple[int, int]:
        figures = os.statvfs(path)
        return figures.f_frsize * figures.f_blocks, figures.f_frsize * figures.f_bavail


def _inode(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False
