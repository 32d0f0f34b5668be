"""The entries of one index: the first ones in its file, the newest ones still in memory.

Entries have one size and rise.  A lookup is a binary search that reads one entry per step, then one
page: 10 reads of 1 us at 262,144 entries.  No index is decoded, mapped or cached, so what an index
costs in memory is the entries that wait to be written, however long the log is; the kernel has the
pages.  (A mapped file would cost a third of that and end the process with SIGBUS at the first
sector that cannot be read.)

A file is checked by its last entry, as in Kafka's sanityCheck; `Segment` checks each entry that it
follows against the batch that it leads to, and has the index rebuilt if it misleads.

A file that was not closed in order may end with zeros (Apache Kafka makes it at its full size).
They are not counted as entries, and truncated before the first write.

Source: Kafka's AbstractIndex.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.files import Bytes, File, FileSystem
from odradek.storage.files.descriptors import Handle

PAGE_BYTES: Final = 4_096


class IndexUnready(BrokerError):
    """The indexes of a segment are being rebuilt in a thread; retry when they are.

    Clients retry after its error code.
    """

    def __init__(self, path: str) -> None:
        super().__init__(ErrorCode.OFFSET_NOT_AVAILABLE, f"the indexes of {path} are being rebuilt")


ReadEntry = Callable[[Bytes, int], tuple[Any, ...]]
"""`Struct.unpack_from` of one field."""


class CorruptIndex(Exception):
    """This is not the index of this segment; it has to be rebuilt from the .log file."""


class IndexFile:
    """Entries by number: the first ones in a file, those after them in memory."""

    __slots__ = ("_entry", "_handle", "_is_exact", "is_loaded", "pending", "stored_count")

    pending: bytearray
    """Entries that are not in the file yet, as they will be there."""
    stored_count: int
    """Entries in the file."""
    is_loaded: bool
    """Whether it is known what the file holds."""

    def __init__(self, entry: Struct, handle: Handle | None) -> None:
        """An empty index, whatever the file holds, until `load`.

        handle  of the file; None: all entries stay in memory
        """
        self._entry = entry
        self._handle = handle
        self.pending = bytearray()
        self.stored_count = 0
        self.is_loaded = False
        self._is_exact = False

    @property
    def path(self) -> str:
        """Path of the file."""
        assert self._handle is not None, "there is a file"
        return self._handle.path

    def __len__(self) -> int:
        return self.stored_count + len(self.pending) // self._entry.size

    def reset(self) -> None:
        """Empty, whatever the file holds; the next `write` makes it so."""
        self.pending = bytearray()
        self.stored_count = 0
        self.is_loaded = True
        self._is_exact = False

    def unload(self) -> None:
        """Have the file loaded again before it is used: it is not the index of its segment."""
        self.is_loaded = False

    def append_entries(self, entries: bytes) -> None:
        """Add entries after all others, in memory."""
        self.pending += entries

    def load(self) -> None:
        """Count the entries in the file.

        raises  CorruptIndex: it is missing, or cut within an entry; OSError
        """
        file = self._file()
        size = file.size()
        if size % self._entry.size:
            raise CorruptIndex(f"{size} bytes are not a whole number of entries")
        self.pending = bytearray()
        count = size // self._entry.size
        self.stored_count = self._count_without_zeros(file, count)
        self._is_exact = self.stored_count == count
        self.is_loaded = True

    def _count_without_zeros(self, file: File, count: int) -> int:
        """How many of `count` entries come before the zeros at the end of the file."""

        def is_zero(number: int) -> bool:
            return not any(self._read_entry(file, number))

        if count <= 1 or not is_zero(count - 1):
            return count
        low, high = 0, count - 1
        # The first entry may be zeros although others follow it, so it is looked at last.
        while low + 1 < high:
            middle = (low + high) >> 1
            if is_zero(middle):
                high = middle
            else:
                low = middle
        return 0 if high == 1 and is_zero(0) else high

    def _file(self) -> File:
        assert self._handle is not None, "an index without a file holds all entries in memory"
        try:
            return self._handle.use()
        except FileNotFoundError:
            raise CorruptIndex(f"{self.path} is missing") from None

    def _read_entry(self, file: File, number: int) -> bytes:
        size = self._entry.size
        data = file.read_at(number * size, size)
        if len(data) != size:
            raise CorruptIndex(f"entry {number} is cut short")
        return data

    def fields(self, number: int) -> tuple[Any, ...]:
        """The fields of an entry; raises CorruptIndex, OSError."""
        waiting = number - self.stored_count
        if waiting >= 0:
            return self._entry.unpack_from(self.pending, waiting * self._entry.size)
        return self._entry.unpack(self._read_entry(self._file(), number))

    def page(self, number: int) -> Bytes:
        """The entries from one on, at most a page of them; none after the last entry.

        raises  CorruptIndex, OSError
        """
        size = self._entry.size
        count = PAGE_BYTES // size
        waiting = number - self.stored_count
        if waiting >= 0:
            return self.pending[waiting * size : (waiting + count) * size]
        count = min(count, -waiting)
        page = self._file().read_at(number * size, count * size)
        if len(page) != count * size:
            raise CorruptIndex(f"the page of entry {number} is cut short")
        return page

    def count_below(self, read: ReadEntry, at: int, limit: int) -> int:
        """How many entries, from the first on, have a field below `limit`.

        read, at  reads the field; its place in an entry.  The field rises from entry to entry
        raises    CorruptIndex, OSError
        """
        size = self._entry.size
        pending = self.pending
        if not self.stored_count or (pending and read(pending, at)[0] < limit):
            return self.stored_count + _count(pending, len(pending) // size, size, read, at, limit)
        file = self._file()
        per_page = PAGE_BYTES // size
        low, high = 0, (self.stored_count - 1) // per_page
        # The last page whose first entry is below, or else the first page.
        while low < high:
            middle = (low + high + 1) >> 1
            if read(self._read_entry(file, middle * per_page), at)[0] < limit:
                low = middle
            else:
                high = middle - 1
        first = low * per_page
        page = self.page(first)
        return first + _count(page, len(page) // size, size, read, at, limit)

    # Changes.

    def write(self, files: FileSystem) -> None:
        """Bring the file up to what is in memory; not synced.

        raises  CorruptIndex: it has lost entries that were in it; OSError: the next call goes on
        """
        if self._is_exact and not self.pending:
            return
        file = self._open_at_end(files)
        try:
            if self.pending:
                self._is_exact = False
                file.append((self.pending,))
        finally:
            file.close()
        self.stored_count = len(self)
        self.pending = bytearray()
        self._is_exact = True

    def _open_at_end(self, files: FileSystem) -> File:
        """The file, holding the stored entries and nothing else."""
        expected_bytes = self.stored_count * self._entry.size
        try:
            file = files.open(self.path, create=not expected_bytes)
        except FileNotFoundError:
            raise CorruptIndex(f"{self.path} is missing") from None
        try:
            size = file.size()
            if size < expected_bytes:
                raise CorruptIndex(f"{self.path} has {size} bytes instead of {expected_bytes}")
            if size > expected_bytes:
                file.truncate(expected_bytes)
        except BaseException:
            file.close()
            raise
        return file

    def replace(self, files: FileSystem) -> bool:
        """Make the file hold the entries whatever it holds now, and sync it if that changes it.

        For an index whose entries are all in memory.

        returns  whether the file has changed
        raises   OSError
        """
        assert not self.stored_count, "the entries are in memory"
        assert self._handle is not None, "there is a file to write to"
        path = self.path
        content = bytes(self.pending)
        has_changed = not files.exists(path) or files.read(path) != content
        if has_changed:
            files.replace(path, content)
            # An open descriptor is that of the former file.
            self._handle.close()
        self.stored_count = len(self)
        self.pending = bytearray()
        self._is_exact = True
        return has_changed

    def take(self, built: IndexFile) -> None:
        """Use an index that was built in another file, which has the name of this one now."""
        self.close()
        self.stored_count = built.stored_count
        self.pending = built.pending
        self.is_loaded = True
        self._is_exact = built._is_exact

    def truncate(self, files: FileSystem, count: int) -> None:
        """Keep the first `count` entries, in memory and in the file.

        raises  CorruptIndex, OSError
        """
        if count >= self.stored_count:
            del self.pending[(count - self.stored_count) * self._entry.size :]
            return
        self.pending = bytearray()
        self.stored_count = count
        self._is_exact = False
        self.write(files)

    def close(self) -> None:
        """Close the file; the next lookup opens and loads it again."""
        self.is_loaded = self._is_exact = False
        self.pending = bytearray()
        self.stored_count = 0
        if self._handle is not None:
            self._handle.close()


def _count(data: Bytes, count: int, size: int, read: ReadEntry, at: int, limit: int) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if read(data, middle * size + at)[0] < limit:
            low = middle + 1
        else:
            high = middle
    return low
