"""Open files that all logs share: few descriptors, however many segments there are.

A segment owns a `Handle`; its file is opened on use and closed again when others need the place
(second chance: one that was used since the last look is passed over once).  A file slice or a
flush on its way holds the handle and keeps it open.  So the number of descriptors is at most
`open_max` plus the handles held.

One thread, the event loop's, calls everything here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from runtime.files import File, FileSystem
from storage.index_cache import IndexCache

OPEN_MAX: Final = 1_000
INDEX_BYTES_MAX: Final = 32 << 20


class Handle:
    """A file that is opened when needed."""

    __slots__ = ("_shared", "file", "holders", "is_closing", "path", "was_used")

    path: str
    file: File | None
    """Open, or None; whoever calls it must not keep it beyond the turn without `hold`."""
    holders: int
    """Slices and flushes that need it open."""
    was_used: bool
    is_closing: bool
    """Closed by its owner; it stays open for the holders only."""

    def __init__(self, shared: Descriptors, path: str) -> None:
        self._shared = shared
        self.path = path
        self.file = None
        self.holders = 0
        self.was_used = False
        self.is_closing = False

    def use(self) -> File:
        """The open file, for this turn.

        raises  OSError, too when no descriptor is left
        """
        self.was_used = True
        file = self.file
        return file if file is not None else self._shared.open(self)

    def hold(self) -> File:
        """The open file, until `release`."""
        file = self.use()
        self.holders += 1
        return file

    def release(self) -> None:
        """One holder less."""
        assert self.holders > 0, "released more often than held"
        self.holders -= 1
        if self.is_closing and self.holders == 0:
            self._shared.close(self)

    def close(self) -> None:
        """Close the file as soon as nobody holds it; it may be used again later."""
        if self.file is None:
            return
        if self.holders:
            self.is_closing = True
        else:
            self._shared.close(self)


class Descriptors:
    """The open files and loaded indexes of one broker."""

    __slots__ = ("_open", "files", "indexes", "open_max")

    def __init__(
        self,
        files: FileSystem,
        *,
        open_max: int = OPEN_MAX,
        index_bytes_max: int = INDEX_BYTES_MAX,
    ) -> None:
        assert open_max > 0, "at least one file has to be open"
        self.files = files
        self.open_max = open_max
        self.indexes = IndexCache(index_bytes_max)
        self._open: OrderedDict[Handle, None] = OrderedDict()

    @property
    def open_count(self) -> int:
        """Files open now."""
        return len(self._open)

    def open(self, handle: Handle) -> File:
        """Open a handle's file, closing another one when there are too many."""
        assert handle.file is None, "it is open already"
        if len(self._open) >= self.open_max:
            self._make_room()
        file = self.files.open(handle.path)
        handle.file = file
        handle.is_closing = False
        self._open[handle] = None
        return file

    def adopt(self, handle: Handle, file: File) -> None:
        """Take over a file that was opened elsewhere (made with `create`)."""
        assert handle.file is None, "it is open already"
        if len(self._open) >= self.open_max:
            self._make_room()
        handle.file = file
        handle.is_closing = False
        self._open[handle] = None

    def close(self, handle: Handle) -> None:
        """Close a handle's file now."""
        file = handle.file
        assert file is not None, "it is closed already"
        handle.file = None
        handle.is_closing = False
        del self._open[handle]
        file.close()

    def _make_room(self) -> None:
        for _ in range(2 * len(self._open)):
            handle = next(iter(self._open))
            if handle.holders or handle.was_used:
                handle.was_used = False
                self._open.move_to_end(handle)
                continue
            self.close(handle)
            return
