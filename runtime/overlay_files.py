"""A file system over another one that stays as it is: changes are kept beside it, and listed.

It shows what a program would do to files: the program works on the overlay.  A changed file is the
first bytes of its origin, followed by what was appended, which is stored in one spill file: memory
grows with the number of changed files and of appends, not with their bytes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.runtime.files import Bytes, File, FileLock, FileSystem, FolderListing

WRITTEN: Final = "written"
TRUNCATED: Final = "truncated"
RENAMED: Final = "renamed"
REMOVED: Final = "removed"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One change, in the order in which they were made."""

    kind: str
    """`WRITTEN`, `TRUNCATED`, `RENAMED` or `REMOVED`."""
    path: str
    size: int = 0
    """Bytes after a truncation or a write; before a removal."""
    former_size: int = 0
    """Before a truncation."""
    target: str = ""
    """The new name of a file that is renamed."""


@dataclass(slots=True)
class _Node:
    """A file that was changed or renamed."""

    origin: str | None
    """Path in the base whose first `kept` bytes it begins with."""
    kept: int = 0
    extents: list[tuple[int, int]] = field(default_factory=list)
    """(position, size) in the spill file."""

    @property
    def size(self) -> int:
        return self.kept + sum(size for _, size in self.extents)


class OverlayFileSystem:
    """`base` with changes; `close` when it is done with."""

    def __init__(self, base: FileSystem, spill: File) -> None:
        """spill  an empty file, which stays the caller's"""
        self._base = base
        self._spill = spill
        self._spilled = spill.size()
        self._nodes: dict[str, dict[str, _Node | None]] = {}
        """Per folder and name; None: removed."""
        self._folders: dict[str, bool] = {}
        """Folders that were made (True) or removed (False)."""
        self._opened: dict[File, None] = {}
        self.changes: list[FileChange] = []

    def close(self) -> None:
        """Close every file of the base that is open."""
        for file in self._opened:
            file.close()
        self._opened.clear()

    def node(self, path: str) -> _Node | None:
        """None: the file is that of the base.  raises  FileNotFoundError: it was removed"""
        folder, _, name = path.rpartition("/")
        names = self._nodes.get(folder)
        if names is None or name not in names:
            return None
        node = names[name]
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _set_node(self, path: str, node: _Node | None) -> None:
        folder, _, name = path.rpartition("/")
        self._nodes.setdefault(folder, {})[name] = node

    # Reading.

    def exists(self, path: str) -> bool:
        try:
            if self.node(path) is not None:
                return True
        except FileNotFoundError:
            return False
        return self._folders.get(path, self._is_of_base(path) and self._base.exists(path))

    def is_directory(self, path: str) -> bool:
        return self._folders.get(path, self._is_of_base(path) and self._base.is_directory(path))

    def _is_of_base(self, path: str) -> bool:
        return path.rpartition("/")[0] not in self._folders

    def size(self, path: str) -> int:
        node = self.node(path)
        return self._base.size(path) if node is None else node.size

    def modified_ms(self, path: str) -> int:
        node = self.node(path)
        origin = path if node is None else node.origin
        return 0 if origin is None else self._base.modified_ms(origin)

    def list(self, path: str) -> list[str]:
        if not self._folders.get(path, True):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        names = dict.fromkeys(() if path in self._folders else self._base.list(path), True)
        for folder, is_there in self._folders.items():
            parent, _, name = folder.rpartition("/")
            if parent == path:
                names[name] = is_there
        # A file may have the name of a folder that is gone.
        for name, node in self._nodes.get(path, {}).items():
            names[name] = node is not None or self._folders.get(f"{path}/{name}", False)
        return sorted(name for name, is_there in names.items() if is_there)

    def list_files(self, path: str) -> FolderListing:
        names = self.list(path)
        of_base = () if path in self._folders else self._base.list_files(path).others
        changed = self._nodes.get(path, {})
        others = [
            name
            for name in names
            if self._folders.get(f"{path}/{name}", name in of_base and name not in changed)
        ]
        return FolderListing([name for name in names if name not in others], others)

    def read(self, path: str) -> bytes:
        if self.node(path) is None:
            return self._base.read(path)
        file = self.open(path)
        return file.read_at(0, file.size())

    def space(self, path: str) -> tuple[int, int]:
        return self._base.space(path)

    def open(self, path: str, *, create: bool = False) -> File:
        if not self.exists(path):
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._set_node(path, _Node(None))
            self.note(FileChange(WRITTEN, path))
        return _OverlayFile(self, path)

    def open_base(self, path: str) -> File:
        """A file of the base, which is closed with the overlay at the latest."""
        file = self._base.open(path)
        self._opened[file] = None
        return file

    def close_base(self, file: File) -> None:
        """Close a file of the base."""
        if file in self._opened:
            del self._opened[file]
            file.close()

    def read_spilled(self, position: int, size: int) -> bytes:
        """Bytes that were stored by `spill`."""
        return self._spill.read_at(position, size)

    # Changes.

    def node_to_change(self, path: str) -> _Node:
        """The node of a file that is about to be changed."""
        node = self.node(path)
        if node is None:
            node = _Node(path, self._base.size(path))
            self._set_node(path, node)
        return node

    def note(self, change: FileChange) -> None:
        """List a change; writes that follow one another are one."""
        last = self.changes[-1] if self.changes else None
        if last is not None and last.kind == change.kind == WRITTEN and last.path == change.path:
            self.changes.pop()
        self.changes.append(change)

    def spill(self, chunks: Sequence[Bytes]) -> tuple[int, int]:
        """Store bytes; returns (position, size) in the spill file."""
        size = self._spill.append(chunks)
        position = self._spilled
        self._spilled += size
        return position, size

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Does nothing: an overlay keeps no times."""

    def make_directory(self, path: str) -> None:
        if not self.is_directory(path):
            self._folders[path] = True

    def rename(self, source: str, target: str) -> None:
        if self.is_directory(source):
            for name in self.list(source):
                self._move(f"{source}/{name}", f"{target}/{name}")
            self._folders[source] = False
            self._folders[target] = True
        else:
            self._move(source, target)
        self.note(FileChange(RENAMED, source, target=target))

    def _move(self, source: str, target: str) -> None:
        self._set_node(target, self.node_to_change(source))
        self._set_node(source, None)

    def remove(self, path: str) -> None:
        self.note(FileChange(REMOVED, path, size=self.size(path)))
        self._set_node(path, None)

    def remove_tree(self, path: str) -> None:
        for name in self.list(path):
            self.remove(f"{path}/{name}")
        self._folders[path] = False

    def sync_directory(self, path: str) -> None:
        """Nothing is ever made durable."""

    def lock(self, path: str) -> FileLock:
        return _NoLock()

    def replace(self, path: str, data: bytes) -> None:
        self._set_node(path, _Node(None, 0, [self.spill((data,))] if data else []))
        self.note(FileChange(WRITTEN, path, size=len(data)))


class _NoLock:
    def release(self) -> None:
        pass


class _OverlayFile:
    """An open file; removals and renamings meanwhile are not followed."""

    def __init__(self, files: OverlayFileSystem, path: str) -> None:
        self.path = path
        self._files = files
        self._file: File | None = None

    def size(self) -> int:
        return self._files.size(self.path)

    def read_at(self, position: int, size: int) -> bytes:
        node = self._files.node(self.path)
        if node is None:
            return self._read_origin(self.path, position, size)
        parts = []
        if position < node.kept and node.origin is not None:
            parts.append(self._read_origin(node.origin, position, min(size, node.kept - position)))
        start, end = node.kept, position + size
        for place, length in node.extents:
            first, last = max(position, start), min(end, start + length)
            if first < last:
                parts.append(self._files.read_spilled(place + first - start, last - first))
            start += length
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_origin(self, origin: str, position: int, size: int) -> bytes:
        if self._file is None:
            self._file = self._files.open_base(origin)
        return self._file.read_at(position, size)

    def append(self, chunks: Sequence[Bytes]) -> int:
        node = self._files.node_to_change(self.path)
        extent = self._files.spill(chunks)
        node.extents.append(extent)
        self._files.note(FileChange(WRITTEN, self.path, size=node.size))
        return extent[1]

    def truncate(self, size: int) -> None:
        node = self._files.node_to_change(self.path)
        former_size = node.size
        if size > former_size:
            node.extents.append(self._files.spill((bytes(size - former_size),)))
        rest = size - node.kept
        node.kept = min(node.kept, size)
        kept: list[tuple[int, int]] = []
        for position, length in node.extents:
            if rest > 0:
                kept.append((position, min(length, rest)))
            rest -= length
        node.extents = kept
        self._files.note(FileChange(TRUNCATED, self.path, size=size, former_size=former_size))

    def sync(self) -> None:
        pass

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        if self._file is not None:
            self._files.close_base(self._file)
            self._file = None
