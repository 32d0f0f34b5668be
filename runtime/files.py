"""The interface of files and file systems.

Implementations: `system_files` (the host) and `testing.memory_files` (loses what was not synced,
fails the n-th operation).  A method whose operation fails raises `OSError` and nothing else.  All
calls are synchronous; `sync` and `sync_directory` may take long, so run them in a thread while an
event loop is running.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple, Protocol

Bytes = bytes | bytearray | memoryview


class FolderListing(NamedTuple):
    """Names in a folder, sorted; a symbolic link counts as what it leads to."""

    files: list[str]
    """Regular files."""
    others: list[str]
    """Folders, pipes, sockets, links that lead nowhere."""


class File(Protocol):
    """An open file: positional reads, appends at its end."""

    path: str

    def size(self) -> int:
        """Bytes in the file."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def append(self, chunks: Sequence[Bytes]) -> int:
        """Write all chunks at the end, in one system call where the host allows.

        returns  the count of bytes, always of all chunks
        raises   OSError; then a prefix may be in the file, and the caller truncates it
        """

    def truncate(self, size: int) -> None:
        """Cut (or extend with zeros) to `size` bytes."""

    def sync(self) -> None:
        """Make the content durable.

        Must not be called again after it failed: the kernel has dropped the dirty pages.
        """

    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 if there is none."""

    def close(self) -> None:
        """Release the descriptor; may be called again."""


class FileSystem(Protocol):
    """Paths are absolute strings with `/`; parents must exist."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` creates the file if it does not exist."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a folder."""

    def size(self, path: str) -> int:
        """Bytes of the file at `path`."""

    def modified_ms(self, path: str) -> int:
        """Time of last change, milliseconds since 1970."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of last change."""

    def list(self, path: str) -> list[str]:
        """Names (not paths) in a folder, sorted."""

    def list_files(self, path: str) -> FolderListing:
        """List a folder, with regular files apart from everything else."""

    def make_directory(self, path: str) -> None:
        """Create a folder and its missing parents; it may exist already."""

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, replacing `target`."""

    def remove(self, path: str) -> None:
        """Remove a file; descriptors that are open stay usable."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder with everything in it."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in the folder durable."""

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock on the file, which is created if absent.

        raises  BlockingIOError when another process has it
        """

    def read(self, path: str) -> bytes:
        """The whole content."""

    def replace(self, path: str, data: bytes) -> None:
        """Write `path`.tmp, sync it, rename it over `path`, sync the folder.

        source  Kafka: CheckpointFile
        """

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds `path`."""


class FileLock(Protocol):
    def release(self) -> None:
        """Unlock."""


def sync_file(files: FileSystem, path: str) -> None:
    """Make a file's content durable; costs little when it is.

    raises  OSError: the disk has lost something; no later sync reports it again
    """
    with closing(files.open(path)) as file:
        file.sync()
