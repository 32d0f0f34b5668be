"""A file system in memory that crashes, fails and fills up like a real one, for tests.

`crash` keeps what POSIX guarantees, and nothing more:

    content          up to the last `File.sync`; of the writes since then a prefix, the last one of
                     them torn anywhere, its missing end sometimes read as zeros
    folder entries   up to the last `sync_directory` of the folder; of the creations, renames and
                     removals since then a prefix for each folder (one that touches two folders is
                     kept for both or for none)
    a failed sync    what was written before it is never durable, also when a later sync succeeds:
                     the kernel has marked those pages clean

So a file that was synced, but whose folder was not, may not exist any more.  The `Randomness` that
is passed decides, so a seed repeats a crash.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import lru_cache

from odradek.runtime.files import Bytes, FileLock, FolderListing
from odradek.runtime.randomness import Randomness
from odradek.runtime.testing.memory_nodes import (
    CrashOutcome,
    Directory,
    FileNode,
    Journal,
    RandomOutcome,
)

UNLIMITED_BYTES = 1 << 62
UNLIMITED_DESCRIPTORS = 1 << 30
PATHS_MAX = 4_096
_MODIFIED_START_MS = 1_000_000_000_000


@lru_cache(PATHS_MAX)
def _names(path: str) -> tuple[str, ...]:
    """The names of a path, from the root on."""
    return tuple(name for name in path.split("/") if name)


def _ignore(what: str, path: str) -> None:
    """Nothing."""


class MemoryFile:
    """An open file; it stays readable and writable after its name was removed."""

    __slots__ = ("_file_system", "_node", "path")

    def __init__(self, file_system: MemoryFileSystem, path: str, node: FileNode) -> None:
        self.path = path
        self._file_system = file_system
        self._node: FileNode | None = node

    def _open_node(self) -> FileNode:
        if self._node is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._node

    def size(self) -> int:
        return len(self._open_node().content)

    def read_at(self, position: int, size: int) -> bytes:
        node = self._open_node()
        self._file_system.count_operation(self.path)
        return bytes(node.content[position : position + size])

    def append(self, chunks: Sequence[Bytes]) -> int:
        """Write at the end; a failure leaves the first half of it."""
        node = self._open_node()
        data = b"".join(chunks)
        self._file_system.write(node, len(node.content), data, self.path)
        return len(data)

    def write_at(self, position: int, data: Bytes) -> None:
        """Overwrite or extend, as tests damage files; a failure leaves the first half of it."""
        self._file_system.write(self._open_node(), position, bytes(data), self.path)

    def truncate(self, size: int) -> None:
        node = self._open_node()
        self._file_system.count_operation(self.path)
        self._file_system.check_space(size - len(node.content), self.path)
        self._file_system.before_change("truncate", self.path)
        node.truncate(size)
        node.modified_ms = self._file_system.now_ms()

    def sync(self) -> None:
        """Make the content durable; when it fails, what was written is never durable."""
        node = self._open_node()
        try:
            self._file_system.count_operation(self.path)
        except OSError:
            node.forget_changes()
            raise
        self._file_system.before_change("sync", self.path)
        node.sync()

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        if self._node is not None:
            self._node = None
            self._file_system.on_closed(self)


class MemoryFileLock:
    """An exclusive lock; `crash` and `kill` release it."""

    __slots__ = ("_file_system", "_node")

    def __init__(self, file_system: MemoryFileSystem, node: FileNode) -> None:
        self._file_system = file_system
        self._node = node

    def release(self) -> None:
        self._file_system.on_released(self._node)


class MemoryFileSystem:
    """A `FileSystem` in memory; see the module."""

    def __init__(
        self,
        *,
        folders: Sequence[str] = (),
        now_ms: Callable[[], int] | None = None,
        capacity_bytes: int = UNLIMITED_BYTES,
        descriptors_max: int = UNLIMITED_DESCRIPTORS,
    ) -> None:
        """A root with nothing but `folders`.

        folders          are durable; a folder that is created later is lost in a crash unless its
                         parent was synced
        now_ms           for the times of change; None: a millisecond later at each change
        capacity_bytes   of all content; a write beyond it is cut short and fails with ENOSPC
        descriptors_max  open files and locks; an operation that needs one more, even for a moment,
                         fails with EMFILE
        """
        self.capacity_bytes = capacity_bytes
        self.descriptors_max = descriptors_max
        self.operations = 0
        """Opens, reads, writes, syncs, changes and lists of folders so far; stats are free."""
        self.before_change: Callable[[str, str], None] = _ignore
        """Called before each change and each sync: with what is done (a name of the methods here,
        or `write`, `truncate`, `sync`, `create`), and the path."""
        self.now_ms = self._next_ms if now_ms is None else now_ms
        self._last_modified_ms = _MODIFIED_START_MS
        self._root = Directory(0)
        self._journal = Journal()
        self._open_files: dict[MemoryFile, FileNode] = {}
        self._locked: dict[FileNode, MemoryFileLock] = {}
        self._failures: dict[int, OSError] = {}
        for folder in folders:
            self.make_directory(folder)
        self._journal.sync_all()
        self.operations = 0

    def crash(self, rng: Randomness) -> None:
        """A power failure: keep what is durable and, at random, some of what is not.

        Closes all files and releases all locks; using a file that was open raises EBADF.
        """
        self.crash_into(RandomOutcome(rng))

    def crash_into(self, outcome: CrashOutcome) -> None:
        """Do what `crash` does, with what is left decided by `outcome`."""
        self.kill()
        self._journal.crash(outcome)
        self._root.crash(outcome)

    def kill(self) -> None:
        """The process is killed: files are closed and locks released, all writes are kept."""
        for file in list(self._open_files):
            file.close()
        self._locked.clear()
        self._failures.clear()

    def copied(self) -> MemoryFileSystem:
        """A copy: the files with the changes that are pending, none of them open."""
        copy = MemoryFileSystem(
            capacity_bytes=self.capacity_bytes, descriptors_max=self.descriptors_max
        )
        nodes: dict[int, FileNode | Directory] = {}
        copy._root = self._root.copied(nodes)
        copy._journal = self._journal.copied(nodes)
        copy._last_modified_ms = self._last_modified_ms
        return copy

    def fail_operation(self, n: int, error: OSError) -> None:
        """Let the n-th operation from now raise `error`; 1 is the next one."""
        assert n >= 1, "1 is the next operation"
        self._failures[self.operations + n] = error

    def used_bytes(self) -> int:
        """Bytes of all files, removed ones that are open included."""
        nodes = dict.fromkeys(self._open_files.values())
        nodes.update(dict.fromkeys(self._root.files()))
        return sum(len(node.content) for node in nodes)

    def count_operation(self, path: str) -> None:
        """Count the operation, and raise the error of `fail_operation` if it is due."""
        self.operations += 1
        error = self._failures.pop(self.operations, None)
        if error is not None:
            raise type(error)(error.errno or errno.EIO, error.strerror or "failure", path)

    def check_space(self, more_bytes: int, path: str) -> None:
        """Raise ENOSPC when `more_bytes` do not fit."""
        if more_bytes > 0 and more_bytes > self._free_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def descriptor_count(self) -> int:
        return len(self._open_files) + len(self._locked)

    def _check_descriptors(self, path: str) -> None:
        if self.descriptor_count() >= self.descriptors_max:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    def write(self, node: FileNode, position: int, data: bytes, path: str) -> None:
        try:
            self.count_operation(path)
        except OSError:
            node.write(position, data[: len(data) // 2])
            raise
        more_bytes = position + len(data) - len(node.content)
        if more_bytes > 0 and more_bytes > self._free_bytes():
            node.write(position, data[: len(data) - more_bytes + self._free_bytes()])
            self.check_space(more_bytes, path)
        self.before_change("write", path)
        node.write(position, data)
        node.modified_ms = self.now_ms()

    def on_closed(self, file: MemoryFile) -> None:
        self._open_files.pop(file, None)

    def on_released(self, node: FileNode) -> None:
        self._locked.pop(node, None)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self._check_descriptors(path)
        self.count_operation(path)
        node = self._find_file(path, create=create)
        file = MemoryFile(self, path, node)
        self._open_files[file] = node
        return file

    def exists(self, path: str) -> bool:
        return self._lookup(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._lookup(path), Directory)

    def size(self, path: str) -> int:
        return len(self._find_file(path).content)

    def modified_ms(self, path: str) -> int:
        return self._find(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.count_operation(path)
        self._find(path).modified_ms = modified_ms

    def list(self, path: str) -> list[str]:
        self._check_descriptors(path)
        self.count_operation(path)
        return sorted(self._find_directory(path).entries)

    def list_files(self, path: str) -> FolderListing:
        listing = FolderListing([], [])
        for name in self.list(path):
            is_other = self.is_directory(f"{path}/{name}")
            (listing.others if is_other else listing.files).append(name)
        return listing

    def make_directory(self, path: str) -> None:
        self.count_operation(path)
        directory = self._root
        for name in path.strip("/").split("/"):
            entry = directory.entries.get(name)
            if entry is None:
                self.before_change("make_directory", path)
                entry = Directory(self.now_ms())
                self._journal.link(directory, name, entry)
            elif not isinstance(entry, Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            directory = entry

    def rename(self, source: str, target: str) -> None:
        self.count_operation(source)
        node = self._find(source)
        directory, name = self._parent(target)
        replaced = directory.entries.get(name)
        if isinstance(replaced, Directory) and replaced is not node:
            if not isinstance(node, Directory):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
            if replaced.entries:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), source)
        elif isinstance(node, Directory) and isinstance(replaced, FileNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), source)
        source_directory, source_name = self._parent(source)
        self.before_change("rename", target)
        self._journal.rename(source_directory, source_name, directory, name)

    def remove(self, path: str) -> None:
        """Take the name away; open files keep the content."""
        self.count_operation(path)
        self._find_file(path)
        directory, name = self._parent(path)
        self.before_change("remove", path)
        self._journal.unlink(directory, name)

    def remove_tree(self, path: str) -> None:
        """Remove the folder and what is in it; a failure leaves the names from the middle on."""
        self._check_descriptors(path)
        directory = self._find_directory(path)
        try:
            self.count_operation(path)
        except OSError:
            names = sorted(directory.entries)
            for name in names[: len(names) // 2]:
                self._journal.unlink(directory, name)
            raise
        parent, name = self._parent(path)
        self._journal.unlink_tree(parent, name, lambda: self.before_change("remove_tree", path))

    def sync_directory(self, path: str) -> None:
        self._check_descriptors(path)
        self.count_operation(path)
        directory = self._find_directory(path)
        self.before_change("sync_directory", path)
        self._journal.sync(directory)

    def lock(self, path: str) -> FileLock:
        self._check_descriptors(path)
        self.count_operation(path)
        node = self._find_file(path, create=True)
        if node in self._locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        lock = self._locked[node] = MemoryFileLock(self, node)
        return lock

    def read(self, path: str) -> bytes:
        self._check_descriptors(path)
        self.count_operation(path)
        return bytes(self._find_file(path).content)

    def replace(self, path: str, data: bytes) -> None:
        """Write aside, sync, rename, sync the folder: five operations, each of which may fail."""
        aside = path + ".tmp"
        try:
            with closing(self.open(aside, create=True)) as file:
                file.truncate(0)
                file.append((data,))
                file.sync()
            self.rename(aside, path)
        except OSError:
            if self.exists(aside):
                directory, name = self._parent(aside)
                self._journal.unlink(directory, name)
            raise
        self.sync_directory(os.path.dirname(path))

    def space(self, path: str) -> tuple[int, int]:
        return self.capacity_bytes, self._free_bytes()

    def _free_bytes(self) -> int:
        if self.capacity_bytes >= UNLIMITED_BYTES:
            return UNLIMITED_BYTES
        return max(0, self.capacity_bytes - self.used_bytes())

    def _next_ms(self) -> int:
        self._last_modified_ms += 1
        return self._last_modified_ms

    def _lookup(self, path: str) -> FileNode | Directory | None:
        node: FileNode | Directory | None = self._root
        for name in _names(path):
            if type(node) is not Directory:
                return None
            node = node.entries.get(name)
        return node

    def _find(self, path: str) -> FileNode | Directory:
        node = self._lookup(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _find_directory(self, path: str) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _find_file(self, path: str, *, create: bool = False) -> FileNode:
        node = self._lookup(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is not None:
            return node
        if not create:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        directory, name = self._parent(path)
        self.before_change("create", path)
        node = FileNode(self.now_ms())
        self._journal.link(directory, name, node)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        folder, _, name = path.rstrip("/").rpartition("/")
        return self._find_directory(folder or "/"), name
