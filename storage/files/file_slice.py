"""A range of a segment's file, handed out instead of its bytes."""

from __future__ import annotations

from odradek.storage.files.descriptors import Handle


class FileSlice:
    """Bytes of a file that will be sent or read; its file stays open until `release`.

    The range is read later than it was given.  What was cut off in between is never read: other
    batches may be stored there by then, with good checksums.  Who sends a slice asks `is_cut` right
    before each read, and ends the connection when it is: the frame cannot be completed.
    """

    __slots__ = ("_handle", "_size", "position")

    position: int
    """Of the first byte in the file."""

    def __init__(self, handle: Handle, position: int, size: int) -> None:
        """Holds `handle`, whose file the caller has opened."""
        assert handle.file is not None, "the file of a slice is open"
        handle.holders += 1
        self._handle: Handle | None = handle
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        path = self._handle.path if self._handle is not None else "released"
        return f"FileSlice({path}, position={self.position}, size={self._size})"

    @property
    def is_cut(self) -> bool:
        """Whether some of the bytes have been cut off since the slice was given."""
        assert self._handle is not None, "the slice is released"
        return self.position + self._size > self._handle.cut_at

    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 where there is none."""
        assert self._handle is not None, "the slice is released"
        assert self._handle.file is not None, "a held file is open"
        return self._handle.file.fileno()

    def read(self) -> bytes:
        """The bytes; fewer than `len` when some of them were cut off meanwhile.

        raises  OSError
        """
        handle = self._handle
        assert handle is not None, "the slice is released"
        assert handle.file is not None, "a held file is open"
        size = min(self._size, handle.cut_at - self.position)
        return handle.file.read_at(self.position, size) if size > 0 else b""

    def release(self) -> None:
        """Let the file go; releasing twice is allowed."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.release()
