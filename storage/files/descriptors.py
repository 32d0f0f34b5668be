"""Open files that all logs share: few descriptors, however many segments there are.

A segment owns a `Handle` for its .log file and one for each index; the file is opened on use and
closed again when others need the place (second chance: one that was used since the last look is
passed over once).  A file slice holds the handle and keeps it open.  So the number of descriptors
is at most `open_max` plus the handles held.

`Handle.cut` is called before a file is cut that may be appended to again: what holds the former
handle reads nothing at or after the cut any more.

One thread, the event loop's, calls everything here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from odradek.runtime.files import File, FileSystem
from odradek.storage.events import Report, ignore
from odradek.storage.files.disk_errors import is_out_of_descriptors

OPEN_MAX: Final = 1_000
NEVER_CUT: Final = 1 << 62


class Handle:
    """A file that is opened when needed."""

    __slots__ = (
        "_former",
        "_shared",
        "cut_at",
        "file",
        "holders",
        "is_closing",
        "path",
        "was_used",
    )

    path: str
    file: File | None
    """Open, or None; the caller must not keep it beyond the turn without `hold`."""
    holders: int
    """Slices that need it open."""
    was_used: bool
    is_closing: bool
    """Closed by its owner; it stays open for the holders only."""
    cut_at: int
    """Bytes from here on are not those any more that the holders were promised."""

    def __init__(self, shared: Descriptors, path: str) -> None:
        self._shared = shared
        self.path = path
        self.file = None
        self.holders = 0
        self.was_used = False
        self.is_closing = False
        self.cut_at = NEVER_CUT
        self._former: list[Handle] = []
        """Those of the same file that were cut, as long as they are held."""

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

    def cut(self, size: int) -> Handle:
        """The file is about to be cut to `size` bytes and may grow again.

        returns  the handle to go on with: this one, or another one while slices hold this one
        """
        former = [handle for handle in self._former if handle.holders]
        for handle in former:
            handle.cut_at = min(handle.cut_at, size)
        if self.holders:
            self.cut_at = size
            former.append(self)
            self.close()
            successor = Handle(self._shared, self.path)
            successor._former = former
            self._former = []
            return successor
        self._former = former
        return self

    def close(self) -> None:
        """Close the file as soon as nothing holds it; it may be used again later."""
        if self.file is None:
            return
        if self.holders:
            self.is_closing = True
        else:
            self._shared.close(self)


class Descriptors:
    """The open files of one broker, and where its logs report to."""

    __slots__ = ("_open", "files", "open_max", "rebuild_later", "rebuilding", "report")

    report: Report
    """Takes what an operator has to learn; from any thread."""
    rebuild_later: Callable[[Any, str], None] | None
    """Has the indexes of a `Segment` rebuilt in a thread, for the reason given.  None: they are
    rebuilt within the call that needs them."""
    rebuilding: dict[Any, None]
    """Segments for which it was called, until they are rebuilt."""

    def __init__(
        self, files: FileSystem, *, open_max: int = OPEN_MAX, report: Report = ignore
    ) -> None:
        assert open_max > 0, "at least one file has to be open"
        self.files = files
        self.open_max = open_max
        self.report = report
        self.rebuild_later = None
        self.rebuilding = {}
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
        try:
            file = self.files.open(handle.path)
        except OSError as error:
            if not is_out_of_descriptors(error) or not self._make_room():
                raise
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

    def _make_room(self) -> bool:
        """Close one that is not held; False when there is none."""
        for _ in range(2 * len(self._open)):
            handle = next(iter(self._open))
            if handle.holders or handle.was_used:
                handle.was_used = False
                self._open.move_to_end(handle)
                continue
            self.close(handle)
            return True
        return False
