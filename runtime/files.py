"""The door to disks: what a file and a file system can do.

Two implementations stand behind it: `system_files` (the host) and `memory_files` (tests: loses
what was not synced, fails the n-th operation).  Every method raises `OSError` and nothing else when
the disk refuses.  All calls are synchronous; `sync` and `sync_directory` may take long and belong
in a thread when an event loop is running.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class File(Protocol):
    """An open file: positional reads, appends at its end."""

    path: str

    def size(self) -> int:
        """Bytes in the file now."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def append(self, chunks: Sequence[Bytes]) -> int:
        """Write all chunks at the end, one system call where the host allows.

        returns  the bytes written, always all of them
        raises   OSError; a prefix may then be in the file (the caller truncates back to the size
                 it knew)
        """

    def truncate(self, size: int) -> None:
        """Cut (or extend with zeros) to `size` bytes."""

    def sync(self) -> None:
        """Make the content durable.

        Never call again after it failed: the kernel forgot the pages.
        """

    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 where there is none."""

    def close(self) -> None:
        """Release the descriptor; closing twice is allowed."""


class FileSystem(Protocol):
    """Paths are absolute strings with `/`; parents must exist."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes an empty file where there is none."""

    def exists(self, path: str) -> bool:
        """Whether a file or a folder is there."""

    def is_directory(self, path: str) -> bool:
        """Whether a folder is there."""

    def size(self, path: str) -> int:
        """Bytes of the file at `path`."""

    def modified_ms(self, path: str) -> int:
        """Time of last change, milliseconds since 1970."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of last change."""

    def list(self, path: str) -> list[str]:
        """Names (not paths) in a folder, sorted."""

    def make_directory(self, path: str) -> None:
        """Make a folder and its missing parents; it may be there already."""

    def rename(self, source: str, target: str) -> None:
        """Move atomically, replacing `target`."""

    def remove(self, path: str) -> None:
        """Remove a file; an open one stays readable until it is closed."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder with everything in it."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in the folder durable."""

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock on the file, made if absent.

        raises  BlockingIOError when another process holds it
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
    """A held lock."""

    def release(self) -> None:
        """Give it back."""
