"""Room that is kept free for the coordination of a broker whose disk is full.

A start has to store that this broker is here and that it is the controller, and a deletion of
topics what is deleted, some hundred bytes each; on a disk without a free block neither could be
done, and only removing files by hand would help.  A file of zeros beside those of coordination
holds blocks and releases some when a transaction finds none.  Steps are small: producers take at
once what a step leaves.
"""

from __future__ import annotations

import contextlib
from typing import Final

from odradek.runtime.files import FileSystem

RESERVE_NAME: Final = "coordination.reserve"
RESERVE_BYTES: Final = 256 << 10
STEP_BYTES: Final = 8 << 10
"""At least a block on any usual file system."""
ROOM_MIN_BYTES: Final = 4 << 20
"""The reserve is made again once the volume has this much."""


class DiskReserve:
    """The file; nothing here raises."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        """folder  the one of the coordination files"""
        self._files = files
        self.folder = folder
        self._path = f"{folder}/{RESERVE_NAME}"

    def release_step(self) -> bool:
        """Release a step of the room; whether there was one.  The volume is full."""
        with contextlib.suppress(OSError):
            left_bytes = self._size_bytes() - STEP_BYTES
            if left_bytes > 0:
                file = self._files.open(self._path)
                try:
                    file.truncate(left_bytes)
                finally:
                    file.close()
                return True
            if self._files.exists(self._path):
                self._files.remove(self._path)
                return True
        return False

    def restore(self) -> None:
        """Fill the file up if there is plenty of room."""
        with contextlib.suppress(OSError):
            missing_bytes = RESERVE_BYTES - self._size_bytes()
            if missing_bytes <= 0 or self._files.space(self.folder)[1] < ROOM_MIN_BYTES:
                return
            file = self._files.open(self._path, create=True)
            try:
                file.append((bytes(missing_bytes),))
            finally:
                file.close()

    def _size_bytes(self) -> int:
        return self._files.size(self._path) if self._files.exists(self._path) else 0
