"""The bytes of a connection, split into frames.

A frame is an int32 size and that many bytes.  Small frames are handled where they were received,
in a scratch buffer that all connections of a node share; an incomplete small frame is carried over;
a frame above `SMALL_FRAME_BYTES` gets pooled memory of its own and is received into it directly.
No complete frame is ever copied.
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct
from typing import Final

from odradek.protocol.decode_error import DecodeError

SCRATCH_BYTES: Final = 256 * 1024
SMALL_FRAME_BYTES: Final = 64 * 1024
FIRST_LOOK_BYTES: Final = 4096
"""How much is received at first where large frames are expected: enough for the size of the frame,
and little to copy."""

_SIZE: Final = Struct(">i")

_HTTP_METHODS: Final = frozenset((b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PRI "))
_TLS_HANDSHAKE: Final = b"\x16\x03"


def _wrong_size(size: int, head: bytes) -> str:
    """Why a frame's size is impossible, for the log: often it is another protocol."""
    if head in _HTTP_METHODS:
        return "this is HTTP; the listener speaks Kafka's protocol"
    if head.startswith(_TLS_HANDSHAKE):
        return "this is a TLS handshake; the listener speaks plaintext"
    return f"a frame of {size} bytes"


class BufferPool:
    """Memory for large frames, reused because fresh pages cost three times the copy itself.

    Pages are taken from the host when they are first written: bytes that have arrived count, not
    the size that the frame announces.

    free_bytes_max  how much is kept for later frames
    """

    def __init__(self, *, free_bytes_max: int) -> None:
        self._free: dict[int, list[mmap]] = {}
        self._free_bytes = 0
        self._free_bytes_max = free_bytes_max
        self.held_bytes = 0
        """Received bytes of large frames that are not whole, or not handled, yet."""

    def acquire(self, size: int) -> mmap:
        """At least `size` bytes (the next power of two)."""
        size = 1 << (size - 1).bit_length()
        free = self._free.get(size)
        if free:
            self._free_bytes -= size
            return free.pop()
        return mmap(-1, size)

    def release(self, buffer: mmap, filled: int) -> None:
        """Take a buffer back; views into it must not be read any more.

        filled  how many of its bytes were counted as held
        """
        size = len(buffer)
        self.held_bytes -= filled
        if self._free_bytes + size <= self._free_bytes_max:
            self._free_bytes += size
            self._free.setdefault(size, []).append(buffer)


class FrameReader:
    """Splits the received bytes into frames.

    Call `target`, receive into it, then `received` with the count; the frames it returns are views
    that are valid until `target` is called again.
    """

    __slots__ = (
        "_carry",
        "_expects_large",
        "_frame_bytes_max",
        "_large",
        "_large_filled",
        "_large_size",
        "_pool",
        "_scratch",
    )

    def __init__(self, scratch: memoryview, pool: BufferPool, frame_bytes_max: int) -> None:
        self._scratch = scratch
        self._pool = pool
        self._frame_bytes_max = frame_bytes_max
        self._carry = b""
        self._expects_large = False
        self._large: mmap | None = None
        self._large_filled = 0
        self._large_size = 0

    def has_large_frame(self) -> bool:
        """Whether a frame above `SMALL_FRAME_BYTES` has begun to arrive."""
        return self._large is not None

    def target(self) -> memoryview:
        """The memory to receive into; never empty."""
        large = self._large
        if large is not None:
            if self._large_filled == self._large_size:
                self._pool.release(large, self._large_filled)
                self._large = None
            else:
                return memoryview(large)[self._large_filled : self._large_size]
        carry = self._carry
        if carry:
            size = len(carry)
            self._scratch[:size] = carry
            return self._scratch[size:]
        if self._expects_large:
            return self._scratch[:FIRST_LOOK_BYTES]
        return self._scratch

    def received(self, count: int) -> list[memoryview]:
        """The frames (without their size) that are complete after `count` more bytes.

        raises  DecodeError for a size that is negative or above the maximum
        """
        large = self._large
        if large is not None:
            self._large_filled += count
            self._pool.held_bytes += count
            if self._large_filled < self._large_size:
                return []
            return [memoryview(large)[: self._large_size]]
        scratch = self._scratch
        end = len(self._carry) + count
        position = 0
        frames: list[memoryview] = []
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(scratch, position)
            if not 0 <= size <= self._frame_bytes_max:
                raise DecodeError(_wrong_size(size, bytes(scratch[position : position + 4])))
            start = position + 4
            if start + size > end:
                if size > SMALL_FRAME_BYTES:
                    self._start_large(scratch[start:end], size)
                    return frames
                break
            frames.append(scratch[start : start + size])
            position = start + size
        self._carry = bytes(scratch[position:end]) if position < end else b""
        self._expects_large = False
        return frames

    def _start_large(self, head: memoryview, size: int) -> None:
        self._expects_large = True
        large = self._pool.acquire(size)
        self._carry = b""
        self._large = large
        self._large_size = size
        self._large_filled = len(head)
        self._pool.held_bytes += len(head)
        large[: len(head)] = bytes(head)

    def settle(self) -> None:
        """All frames have been handled: a finished large buffer goes back to the pool."""
        large = self._large
        if large is not None and self._large_filled == self._large_size:
            self._pool.release(large, self._large_filled)
            self._large = None

    def close(self) -> None:
        """Return the memory to the pool."""
        if self._large is not None:
            self._pool.release(self._large, self._large_filled)
            self._large = None
        self._carry = b""
