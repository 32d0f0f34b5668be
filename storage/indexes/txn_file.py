"""The file of a segment's transaction index; there is none while it is empty."""

from __future__ import annotations

from typing import Final

from odradek.runtime.files import FileSystem
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.indexes.index_file import CorruptIndex
from odradek.storage.indexes.txn_index import TxnIndex

UNKNOWN: Final = -1
"""The file may hold anything, or be missing."""


class TxnFile:
    """A transaction index and how much of it is in its file."""

    __slots__ = ("_base_offset", "_files", "_index", "_path", "_written_bytes")

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        """Nothing is read yet."""
        self._files = files
        self._path = path
        self._base_offset = base_offset
        self._index: TxnIndex | None = None
        self._written_bytes = UNKNOWN

    def load(self) -> TxnIndex:
        """The index, read from the file the first time; raises OSError, CorruptBatch."""
        index = self._index
        if index is None:
            try:
                data = self._files.read(self._path)
            except FileNotFoundError:
                data = b""
            try:
                index = TxnIndex.decode(data, self._base_offset)
            except CorruptIndex as error:
                raise CorruptBatch(f"{self._path}: {error}") from None
            self._index = index
            self._written_bytes = len(data)
        return index

    def reset(self) -> None:
        """Empty, whatever the file holds."""
        self._index = TxnIndex()
        self._written_bytes = UNKNOWN

    def write(self) -> None:
        """Bring the file up to what is in memory, not synced; raises OSError."""
        if self._index is None:
            return
        data = self._index.encode()
        written_bytes, self._written_bytes = self._written_bytes, UNKNOWN
        if not data:
            if written_bytes and self._files.exists(self._path):
                self._files.remove(self._path)
        elif len(data) != written_bytes:
            kept_bytes = min(max(written_bytes, 0), len(data))
            file = self._files.open(self._path, create=True)
            try:
                if file.size() != kept_bytes:
                    file.truncate(kept_bytes)
                if len(data) > kept_bytes:
                    file.append((data[kept_bytes:],))
            finally:
                file.close()
        self._written_bytes = len(data)

    def replace(self) -> None:
        """Write it whole and sync it; raises OSError."""
        if self._index is None or not self._index.entries:
            self.write()
            return
        data = self._index.encode()
        self._written_bytes = UNKNOWN
        if not self._files.exists(self._path) or self._files.read(self._path) != data:
            self._files.replace(self._path, data)
        self._written_bytes = len(data)
