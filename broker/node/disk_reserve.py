"""Disk space that is reserved for the coordination of a broker whose disk is full.

A start stores the registration of the broker and the controller's election, a deletion of topics
its request: some hundred bytes each.  Without a free block neither would succeed, and the operator
would have to remove files by hand.  So a file of zeros beside the coordination files reserves
blocks, and releases a few when a transaction finds none.  A step is small, since producers use the
rest of it at once.
"""

from __future__ import annotations

import contextlib
from typing import Final

from odradek.runtime.files import FileSystem

RESERVE_NAME: Final = "coordination.reserve"
RESERVE_BYTES: Final = 256 << 10
STEP_BYTES: Final = 8 << 10
"""At least a block on any usual file system."""
FREE_MIN_BYTES: Final = 4 << 20
"""The reserve is restored once the volume has this much free space."""


class DiskReserve:
    """The file of the reserve; no method raises."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        """folder  of the coordination files"""
        self._files = files
        self.folder = folder
        self._path = f"{folder}/{RESERVE_NAME}"

    def release_step(self) -> bool:
        """Release a part of the reserve, when the volume is full; False when there is none left."""
        with contextlib.suppress(OSError):
            left_bytes = self._size_bytes() - STEP_BYTES
            if left_bytes > 0:
                with contextlib.closing(self._files.open(self._path)) as file:
                    file.truncate(left_bytes)
                return True
            if self._files.exists(self._path):
                self._files.remove(self._path)
                return True
        return False

    def restore(self) -> None:
        """Fill the file up if the volume has `FREE_MIN_BYTES`."""
        with contextlib.suppress(OSError):
            missing_bytes = RESERVE_BYTES - self._size_bytes()
            if missing_bytes <= 0 or self._files.space(self.folder)[1] < FREE_MIN_BYTES:
                return
            with contextlib.closing(self._files.open(self._path, create=True)) as file:
                file.append((bytes(missing_bytes),))

    def _size_bytes(self) -> int:
        return self._files.size(self._path) if self._files.exists(self._path) else 0
