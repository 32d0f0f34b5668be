"""The bytes of a connection, split into frames.

A frame is an int32 size and that many bytes.  Small frames are handled where they were received,
in a scratch buffer that all connections of a node share; an incomplete small frame is carried over;
a frame above `SMALL_FRAME_BYTES` does not fit into the scratch buffer: it gets pooled memory of its
own and is received into it directly.

This memory is lent: frames are valid until `FrameReader.settle`.  A request that reads its frame
after its turn takes the scratch buffer with it (`FrameReader.own_frames`), and the connections go
on with another one, so no complete frame is copied; only while `TAKEN_MAX` requests have taken one
are small frames copied before they are handled.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from struct import Struct
from typing import Final

from odradek.protocol.decode_error import DecodeError

SMALL_FRAME_BYTES: Final = 64 * 1024
SCRATCH_BYTES: Final = 4 + SMALL_FRAME_BYTES
"""The largest small frame with its size: no larger frame is ever whole in the scratch buffer."""
TAKEN_MAX: Final = 64
"""Scratch buffers that requests may have taken at once."""
FIRST_LOOK_BYTES: Final = 4096
"""How much is received at first where large frames are expected: enough for the size of the frame,
and little to copy."""

_SIZE: Final = Struct(">i")

PoisonMemory = Callable[[memoryview | mmap, int], None]

_HTTP_METHODS: Final = frozenset((b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PRI "))
_TLS_HANDSHAKE: Final = b"\x16\x03"


def _wrong_size(size: int, head: bytes) -> str:
    """Why a frame's size is impossible, for the log: often it is another protocol."""
    if head in _HTTP_METHODS:
        return "this is HTTP; the listener speaks Kafka's protocol"
    if head.startswith(_TLS_HANDSHAKE):
        return "this is a TLS handshake; the listener speaks plaintext"
    return f"a frame of {size} bytes"


class ScratchBuffer:
    """The memory that all connections of a node receive small frames into, one turn at a time.

    poison  overwrites the first bytes of memory whose loan has ended; None: they stay
    """

    __slots__ = ("_free", "memory", "poison", "taken_count")

    def __init__(self, *, poison: PoisonMemory | None = None) -> None:
        self.memory = memoryview(bytearray(SCRATCH_BYTES))
        """What the next turn receives into."""
        self.taken_count = 0
        self.poison: Final = poison
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        """Give the present memory away, until `give_back`; at most `TAKEN_MAX` times."""
        assert self.taken_count < TAKEN_MAX, "frames are copied instead"
        self.taken_count += 1
        taken = self.memory
        self.memory = self._free.pop() if self._free else memoryview(bytearray(SCRATCH_BYTES))
        return taken

    def give_back(self, taken: memoryview) -> None:
        """Views into what was taken must not be read any more."""
        self.taken_count -= 1
        if self.poison is not None:
            self.poison(taken, SCRATCH_BYTES)
        self._free.append(taken)


class BufferPool:
    """Memory for large frames, reused because fresh pages cost three times the copy itself.

    Pages are taken from the host when they are first written: bytes that have arrived count, not
    the size that the frame announces.

    free_bytes_max  how much is kept for later frames
    poison          overwrites the first bytes of what is released; None: they stay
    """

    def __init__(self, *, free_bytes_max: int, poison: PoisonMemory | None = None) -> None:
        self._poison = poison
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
        if self._poison is not None:
            self._poison(buffer, filled)
        if self._free_bytes + size <= self._free_bytes_max:
            self._free_bytes += size
            self._free.setdefault(size, []).append(buffer)


class FrameReader:
    """Splits the received bytes into frames.

    Call `target`, receive into it, then `received` with the count; the frames it returns are views
    that are valid until `settle`, which comes at the end of the turn, or after `own_frames` when
    the last request of the turn is done.
    """

    __slots__ = (
        "_carry",
        "_expects_large",
        "_frame_bytes_max",
        "_large",
        "_large_filled",
        "_large_size",
        "_lent_bytes",
        "_pool",
        "_scratch",
        "_taken",
    )

    def __init__(self, scratch: ScratchBuffer, pool: BufferPool, frame_bytes_max: int) -> None:
        self._scratch = scratch
        self._pool = pool
        self._frame_bytes_max = frame_bytes_max
        self._carry = b""
        self._expects_large = False
        self._large: mmap | None = None
        self._large_filled = 0
        self._large_size = 0
        self._lent_bytes = 0
        """Bytes of the scratch buffer that frames of this turn are views of."""
        self._taken: memoryview | None = None
        """The scratch buffer that contains the frames of a request which is not done."""

    def admit(self, frame_bytes_max: int) -> None:
        """Take frames up to another size from now on."""
        self._frame_bytes_max = frame_bytes_max

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
        carry, scratch = self._carry, self._scratch.memory
        if carry:
            size = len(carry)
            scratch[:size] = carry
            return scratch[size:]
        if self._expects_large:
            return scratch[:FIRST_LOOK_BYTES]
        return scratch

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
        scratch = self._scratch.memory
        if not self._carry and count > 4:
            (size,) = _SIZE.unpack_from(scratch)
            if (
                size == count - 4
                and size <= self._frame_bytes_max
                and self._scratch.taken_count < TAKEN_MAX
            ):
                # One whole frame, as most clients send: nothing to split or to keep.
                self._expects_large = False
                self._lent_bytes = count
                return [scratch[4:count]]
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
                    return self._lend(frames, position)
                break
            frames.append(scratch[start : start + size])
            position = start + size
        self._carry = bytes(scratch[position:end]) if position < end else b""
        self._expects_large = False
        return self._lend(frames, position)

    def _lend(self, frames: list[memoryview], size: int) -> list[memoryview]:
        """Frames that are views of the first `size` bytes of the scratch buffer."""
        if self._scratch.taken_count >= TAKEN_MAX:
            return [memoryview(bytearray(frame)) for frame in frames]
        self._lent_bytes = size
        return frames

    def own_frames(self) -> None:
        """Keep the frames of this turn valid until `settle`, whatever others receive before."""
        if self._lent_bytes:
            self._taken = self._scratch.take()
            self._lent_bytes = 0

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
        """All frames have been handled: their memory may be used again."""
        if self._lent_bytes:
            if self._scratch.poison is not None:
                self._scratch.poison(self._scratch.memory, self._lent_bytes)
            self._lent_bytes = 0
        elif self._taken is not None:
            self._give_back()
        large = self._large
        if large is not None and self._large_filled == self._large_size:
            self._pool.release(large, self._large_filled)
            self._large = None

    def _give_back(self) -> None:
        if self._taken is not None:
            self._scratch.give_back(self._taken)
            self._taken = None

    def close(self) -> None:
        """Return the memory."""
        self._give_back()
        self._lent_bytes = 0
        if self._large is not None:
            self._pool.release(self._large, self._large_filled)
            self._large = None
        self._carry = b""
