"""The parts of a message that is encoded in steps: pieces of bytes, and slices of files."""

from __future__ import annotations

from typing import Any, Final

PART_BYTES: Final = 256 * 1024


class Gathered:
    """Joins small chunks to parts of about `PART_BYTES`, so that no join takes long.

    parts       complete ones, in order; all of them after `finish`
    size_bytes  of the whole message so far
    held_bytes  the same without slices of files: memory
    """

    __slots__ = ("_chunks", "_chunks_bytes", "held_bytes", "parts", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.size_bytes = 0
        self.held_bytes = 0
        self._chunks: list[bytes] = []
        self._chunks_bytes = 0

    def add(self, chunks: list[bytes]) -> None:
        """Take chunks over; the list is empty afterwards."""
        joined = b"".join(chunks)
        chunks.clear()
        size = len(joined)
        self.size_bytes += size
        self.held_bytes += size
        self._chunks.append(joined)
        self._chunks_bytes += size
        if self._chunks_bytes >= PART_BYTES:
            self._close_part()

    def add_slice(self, content: Any) -> None:
        """A slice of a file stands here."""
        self._close_part()
        self.parts.append(content)
        self.size_bytes += len(content)

    def finish(self) -> list[Any]:
        """All parts."""
        self._close_part()
        return self.parts

    def _close_part(self) -> None:
        if self._chunks_bytes:
            self.parts.append(b"".join(self._chunks))
        self._chunks.clear()
        self._chunks_bytes = 0
