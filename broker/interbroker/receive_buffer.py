"""The memory into which one connection of a client receives, split into frames.

A frame is an int32 size and that many bytes.  Only the beginning of a frame, which arrived together
with the end of the one before it, or before the buffer was large enough, is ever moved.
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct
from typing import Final

from odradek.protocol.decode_error import DecodeError
from odradek.runtime.lent_memory import Poison

FIRST_BYTES: Final = 64 << 10
KEPT_BYTES_MAX: Final = 16 << 20
"""A larger buffer is replaced by a small one when the frame that needed it has been handled.
Kafka's replica.fetch.response.max.bytes is 10 MiB."""

_SIZE: Final = Struct(">i")


class ReceiveBuffer:
    """Call `target`, receive into it, then `received` with the count; the frames it returns are
    views that are valid until `settle`.

    poison  overwrites the first bytes of memory whose frames were handled; None: they stay
    """

    __slots__ = ("_end", "_frame_bytes_max", "_memory", "_poison", "_start", "_wanted")

    def __init__(self, frame_bytes_max: int, *, poison: Poison | None = None) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._poison = poison
        self._memory = memoryview(mmap(-1, FIRST_BYTES))
        self._start = 0
        self._end = 0
        """The bytes from `_start` to `_end` are the beginning of a frame."""
        self._wanted = 4
        """Bytes of that frame with its size, as far as the size is known."""

    def target(self) -> memoryview:
        """The memory to receive into; never empty."""
        memory, start, end = self._memory, self._start, self._end
        wanted_bytes = self._wanted
        if wanted_bytes > len(memory) or len(memory) > KEPT_BYTES_MAX >= wanted_bytes:
            size = max(FIRST_BYTES, 1 << (wanted_bytes - 1).bit_length())
            larger = memoryview(mmap(-1, size))
            larger[: end - start] = memory[start:end]
            self._memory = memory = larger
            self._start, self._end = 0, end - start
        elif start == end:
            self._start = self._end = 0
        elif start + wanted_bytes > len(memory):
            memory[: end - start] = memory[start:end]
            self._start, self._end = 0, end - start
        return memory[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """The frames (without their size) that are complete after `count` more bytes.

        raises  DecodeError for a size that is negative or above the maximum
        """
        memory, start = self._memory, self._start
        end = self._end = self._end + count
        frames: list[memoryview] = []
        self._wanted = 4
        while end - start >= 4:
            (size,) = _SIZE.unpack_from(memory, start)
            if not 0 <= size <= self._frame_bytes_max:
                raise DecodeError(f"a frame of {size} bytes")
            if start + 4 + size > end:
                self._wanted = 4 + size
                break
            frames.append(memory[start + 4 : start + 4 + size])
            start += 4 + size
        self._start = start
        return frames

    def settle(self) -> None:
        """The frames have been handled: their memory may be used again."""
        if self._poison is not None:
            self._poison(self._memory, self._start)
