"""The file behind an index: what is on disk is a prefix of what is in memory.

Entries of the segment in use are written a few hundred at a time, the rest when the segment or the
log is closed; whatever a crash loses of them is rebuilt from the segment.
"""

from __future__ import annotations

from typing import Final

from runtime.files import Bytes, FileSystem


class CorruptIndex(Exception):
    """The bytes cannot be the index of this segment; the caller rebuilds it from the .log file."""


UNKNOWN: Final = -1
"""The file may hold anything, or be missing."""


class IndexFile:
    """How much of an index its file holds."""

    __slots__ = ("written_bytes",)

    written_bytes: int
    """The file holds the first ones of the index and nothing else; or UNKNOWN."""

    def __init__(self, written_bytes: int = UNKNOWN) -> None:
        self.written_bytes = written_bytes

    def write(self, files: FileSystem, path: str, data: Bytes) -> None:
        """Add what is missing, or write everything when it is unknown what is there; not synced.

        raises  OSError; the next call writes everything
        """
        written_bytes, self.written_bytes = self.written_bytes, UNKNOWN
        if len(data) != written_bytes:
            file = files.open(path, create=True)
            try:
                if written_bytes == UNKNOWN:
                    written_bytes = 0
                    if file.size():
                        file.truncate(0)
                if len(data) > written_bytes:
                    file.append((memoryview(data)[written_bytes:],))
            finally:
                file.close()
        self.written_bytes = len(data)

    def replace(self, files: FileSystem, path: str, data: Bytes) -> None:
        """Make the file hold `data` whatever it holds now, and sync it if that changes it.

        raises  OSError
        """
        self.written_bytes = UNKNOWN
        content = bytes(data)
        if not files.exists(path) or files.read(path) != content:
            files.replace(path, content)
        self.written_bytes = len(data)

    def cut(self, files: FileSystem, path: str, size: int) -> None:
        """Cut it to `size` bytes when it holds more.

        raises  OSError; the next `write` writes everything
        """
        written_bytes, self.written_bytes = self.written_bytes, UNKNOWN
        if written_bytes > size:
            file = files.open(path, create=True)
            try:
                file.truncate(size)
            finally:
                file.close()
            written_bytes = size
        self.written_bytes = written_bytes
