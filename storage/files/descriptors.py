"""Open files that all logs share: few descriptors, however many segments there are.

A segment owns a `Handle` for its .log file and one for each index; the file is opened on use and
closed again when others need the descriptor (second chance: one that was used since the last look
is passed over once).  A `FileSlice` of a segment is returned instead of its bytes; it keeps the
file open.  So the number of descriptors is at most `open_max` plus the handles that slices use.

`Handle.before_truncation` is called before a file is truncated that may be appended to again:
slices of the former handle read nothing at or after the truncation any more.

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
NEVER_TRUNCATED: Final = 1 << 62
RebuildLater = Callable[[Any, str], None]
"""(a `Segment`, the reason): has its indexes rebuilt in a thread"""


class Handle:
    """A file that is opened when needed."""

    __slots__ = (
        "_former",
        "_shared",
        "file",
        "is_closing",
        "path",
        "slice_count",
        "truncated_at",
        "was_used",
    )

    path: str
    file: File | None
    """Open, or None; the caller must not keep it beyond the turn."""
    slice_count: int
    """Slices that need it open."""
    was_used: bool
    is_closing: bool
    """Closed by its owner; it stays open for the slices only."""
    truncated_at: int
    """Bytes from this position on are not those any more for which slices were made."""

    def __init__(self, shared: Descriptors, path: str) -> None:
        self._shared = shared
        self.path = path
        self.file = None
        self.slice_count = 0
        self.was_used = False
        self.is_closing = False
        self.truncated_at = NEVER_TRUNCATED
        self._former: list[Handle] = []
        """Descriptors of the same file before truncations, as long as they have slices."""

    def use(self) -> File:
        """The open file, for this turn.

        raises  OSError, also when no descriptor is left
        """
        self.was_used = True
        file = self.file
        return file if file is not None else self._shared.open(self)

    def before_truncation(self, size: int) -> Handle:
        """The file is about to be truncated to `size` bytes and may grow again.

        returns  the handle to use from now on: this one, or a new one while slices use this one
        """
        former = [handle for handle in self._former if handle.slice_count]
        for handle in former:
            handle.truncated_at = min(handle.truncated_at, size)
        if self.slice_count:
            self.truncated_at = size
            former.append(self)
            self.close()
            successor = Handle(self._shared, self.path)
            successor._former = former
            self._former = []
            return successor
        self._former = former
        return self

    def close(self) -> None:
        """Close the file as soon as no slice uses it; it may be used again later."""
        if self.file is None:
            return
        if self.slice_count:
            self.is_closing = True
        else:
            self._shared.close(self)


class FileSlice:
    """Bytes of a file that will be sent or read; its file stays open until `release`.

    The bytes are read later than the slice is made.  What was truncated in between is never read:
    other batches may be stored there by then, with valid checksums.  A sender asks `is_truncated`
    immediately before each read, and closes the connection when it is: the frame cannot be
    completed.
    """

    __slots__ = ("_handle", "position", "size")

    position: int
    """Position of the first byte in the file."""
    size: int
    """Bytes; `len` is the same, for what has bytes and slices."""

    def __init__(self, handle: Handle, position: int, size: int) -> None:
        """Opens the file of `handle`; raises OSError."""
        handle.was_used = True
        if handle.file is None:
            handle.use()
        handle.slice_count += 1
        self._handle: Handle | None = handle
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        path = self._handle.path if self._handle is not None else "released"
        return f"FileSlice({path}, position={self.position}, size={self.size})"

    def is_of(self, handle: Handle) -> bool:
        """Whether these are bytes of this file."""
        return self._handle is handle

    @property
    def is_truncated(self) -> bool:
        """Whether the file was truncated before the end of the slice since the slice was made."""
        assert self._handle is not None, "the slice is released"
        return self.position + self.size > self._handle.truncated_at

    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 where there is none."""
        assert self._handle is not None, "the slice is released"
        assert self._handle.file is not None, "the file of a slice is open"
        return self._handle.file.fileno()

    def read(self) -> bytes:
        """The bytes; fewer than `len` when some of them were truncated.

        raises  OSError
        """
        handle = self._handle
        assert handle is not None, "the slice is released"
        assert handle.file is not None, "the file of a slice is open"
        size = min(self.size, handle.truncated_at - self.position)
        return handle.file.read_at(self.position, size) if size > 0 else b""

    def release(self) -> None:
        """The file need not stay open any more; releasing twice is allowed."""
        handle, self._handle = self._handle, None
        if handle is not None:
            assert handle.slice_count > 0, "released more often than made"
            handle.slice_count -= 1
            if handle.is_closing and handle.slice_count == 0:
                handle.close()


class Descriptors:
    """The open files of one broker, and where its logs report to."""

    __slots__ = (
        "_open",
        "_rebuild_later",
        "files",
        "is_read_only",
        "open_max",
        "rebuilding",
        "report",
    )

    report: Report
    """Takes what an operator needs to know; from any thread."""
    rebuilding: dict[Any, None]
    """Segments whose indexes are being rebuilt in a thread."""

    def __init__(
        self,
        files: FileSystem,
        *,
        open_max: int = OPEN_MAX,
        report: Report = ignore,
        rebuild_later: RebuildLater | None = None,
        is_read_only: bool = False,
    ) -> None:
        """rebuild_later  None: indexes are rebuilt within the call that needs them

        is_read_only   `rebuild_later` is called for small segments too: for copies in a thread,
                       whose files belong to the event loop
        """
        assert open_max > 0, "at least one file has to be open"
        self.files = files
        self.open_max = open_max
        self.report = report
        self._rebuild_later = rebuild_later
        self.is_read_only = is_read_only
        self.rebuilding = {}
        self._open: OrderedDict[Handle, None] = OrderedDict()

    # Indexes.

    def serve(self, rebuild_later: RebuildLater) -> None:
        """The logs are loaded, and nothing may hold up the loop any more: from now on indexes are
        rebuilt in a thread."""
        assert self._rebuild_later is None, "it is called once"
        self._rebuild_later = rebuild_later

    @property
    def rebuilds_later(self) -> bool:
        """Whether indexes are rebuilt in a thread, and not within the call that needs them."""
        return self._rebuild_later is not None

    def request_rebuild(self, segment: Any, reason: str) -> None:
        """Have the indexes of a segment rebuilt in a thread, until `end_rebuild`."""
        assert self._rebuild_later is not None, "it is asked for in a thread only"
        self.rebuilding[segment] = None
        self._rebuild_later(segment, reason)

    def end_rebuild(self, segment: Any) -> None:
        """The indexes are rebuilt, or will not be."""
        self.rebuilding.pop(segment, None)

    # Files.

    @property
    def open_count(self) -> int:
        """Files open now."""
        return len(self._open)

    def open(self, handle: Handle) -> File:
        """Open a handle's file, closing another one when there are too many."""
        assert handle.file is None, "it is open already"
        if len(self._open) >= self.open_max:
            self._close_unused()
        try:
            file = self.files.open(handle.path)
        except OSError as error:
            if not is_out_of_descriptors(error) or not self._close_unused():
                raise
            file = self.files.open(handle.path)
        self._add(handle, file)
        return file

    def adopt(self, handle: Handle, file: File) -> None:
        """Use a file that was opened elsewhere (with `create`)."""
        assert handle.file is None, "it is open already"
        if len(self._open) >= self.open_max:
            self._close_unused()
        self._add(handle, file)

    def _add(self, handle: Handle, file: File) -> None:
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

    def _close_unused(self) -> bool:
        """Close one that no slice uses; False when there is none."""
        for _ in range(2 * len(self._open)):
            handle = next(iter(self._open))
            if handle.slice_count or handle.was_used:
                handle.was_used = False
                self._open.move_to_end(handle)
                continue
            self.close(handle)
            return True
        return False
