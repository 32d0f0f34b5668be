"""Writes responses to a socket: bytes with send, file slices without a copy in this process.

The queue holds `bytes` and file slices (anything with `fileno`, `position`, `__len__`,
`is_truncated`, `release`, `size`).
Bytes that are followed by a slice go out with MSG_MORE, so that header and records share packets.
A short slice is read and sent together with the bytes around it; a long one is sent with sendfile.
A slice whose pages are not in memory is not read on the event loop: a one-byte read that must not
wait (RWF_NOWAIT) shows it, and a thread reads the pages first.

Before each read of a slice, `is_cut` says whether its file was truncated meanwhile; then the
connection is closed: the frame cannot be completed, and other batches may be stored where its bytes
were.  Bytes that sendfile has accepted before cannot be called back: they are pages of the file
until the client has received them, and of the page in which the truncation is, the kernel sends the
content at that time.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

CHUNKS_MAX: Final = 64
"""How many byte strings one sendmsg takes; IOV_MAX is 1,024."""
SLICE_BYTES_MAX: Final = 1 << 20
"""How much of a slice one call sends, for the sake of the other connections."""
SHORT_SLICE_BYTES: Final = 16 << 10
CUT: Final = "a log was truncated within a slice that is being sent"
_PROBE = bytearray(1)


Part = Any
"""Bytes, or a slice of a file."""
Parts = list[Part]
"""A response, or a piece of it: bytes, and slices of files."""


class TransmitResult(Enum):
    """Why `Transmitter.run` stopped."""

    EMPTY = "everything is written"
    BLOCKED = "the socket takes no more"
    COLD = "the next slice is not in memory"


class Transmitter:
    """The unsent bytes and slices of one connection."""

    __slots__ = ("_sent", "_slices_bytes", "_socket", "_warm", "queue", "queued_bytes")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.queue: deque[Part] = deque()
        self.queued_bytes = 0
        self._slices_bytes = 0
        """Bytes of whole slices of files in the queue."""
        self._sent = 0
        """Bytes of the first element that are sent already."""
        self._warm = False
        """Whether the first element, a slice, is known to be in memory."""

    def add(self, parts: Parts) -> None:
        for part in parts:
            self.queue.append(part)
            if type(part) is bytes:
                self.queued_bytes += len(part)
            else:
                self.queued_bytes += part.size
                self._slices_bytes += part.size

    def held_bytes(self) -> int:
        """The bytes of the queue in memory, slices of files not included."""
        return max(0, self.queued_bytes - self._slices_bytes)

    def run(self) -> TransmitResult:
        """Write as much as the socket takes.

        raises  OSError when the connection is broken
        """
        queue = self.queue
        try:
            while queue:
                first = queue[0]
                if type(first) is bytes:
                    if len(queue) > 1 or self._sent:
                        self._send_bytes()
                        continue
                    # One response, as after most turns: nothing of it is left behind.
                    sent = self._socket.send(first)
                    if sent == len(first):
                        self._sent_all()
                    else:
                        self._advance(sent)
                elif first.is_truncated:
                    raise OSError(CUT)
                elif self._is_cold():
                    return TransmitResult.COLD
                elif first.size <= SHORT_SLICE_BYTES and not self._sent:
                    self._read(0)
                else:
                    self._send_slice()
        except BlockingIOError:
            return TransmitResult.BLOCKED
        return TransmitResult.EMPTY

    def _send_bytes(self) -> None:
        queue = self.queue
        chunks: Parts = []
        flags = 0
        for number in range(len(queue)):
            piece = queue[number]
            if type(piece) is not bytes:
                size = piece.size
                if (
                    size > SHORT_SLICE_BYTES
                    or piece.is_truncated
                    or not is_in_memory(piece.fileno(), piece.position, size)
                ):
                    flags = socket.MSG_MORE
                    break
                piece = self._read(number)
            chunks.append(piece)
            if len(chunks) == CHUNKS_MAX:
                break
        if self._sent:
            chunks[0] = memoryview(chunks[0])[self._sent :]
        sent = self._socket.sendmsg(chunks, (), flags)
        if sent == self.queued_bytes and len(chunks) == len(queue):
            self._sent_all()
        else:
            self._advance(sent)

    def _sent_all(self) -> None:
        """The queue had bytes only, and all of them have left."""
        self.queue.clear()
        self.queued_bytes = self._sent = 0
        self._warm = False

    def _is_cold(self) -> bool:
        if not self._warm:
            piece = self.queue[0]
            self._warm = is_in_memory(
                piece.fileno(), piece.position + self._sent, len(piece) - self._sent
            )
        return not self._warm

    def _read(self, number: int) -> bytes:
        """Replace a slice by its bytes, and return them."""
        piece = self.queue[number]
        size = piece.size
        content = os.pread(piece.fileno(), size, piece.position)
        if len(content) != size:
            raise OSError("a file ended within a slice that is being sent")
        self.queue[number] = content
        self._slices_bytes -= size
        piece.release()
        return content

    def _send_slice(self) -> None:
        piece = self.queue[0]
        size = min(len(piece) - self._sent, SLICE_BYTES_MAX)
        position = piece.position + self._sent
        sent = os.sendfile(self._socket.fileno(), piece.fileno(), position, size)
        if sent == 0:
            raise OSError("a file ended within a slice that is being sent")
        self._advance(sent)

    def _advance(self, sent: int) -> None:
        queue = self.queue
        self.queued_bytes -= sent
        sent += self._sent
        while queue:
            size = len(queue[0])
            if sent < size:
                break
            sent -= size
            self._warm = False
            done = queue.popleft()
            if type(done) is not bytes:
                self._slices_bytes -= size
                done.release()
        self._sent = sent

    def cold_slice(self) -> Callable[[], None]:
        """Work for a thread that brings the first slice's pages into memory."""
        piece = self.queue[0]
        descriptor = os.dup(piece.fileno())
        position = piece.position + self._sent
        size = len(piece) - self._sent

        def warm() -> None:
            try:
                os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_WILLNEED)
                end = position + size
                at = position
                while at < end:
                    got = len(os.pread(descriptor, min(1 << 18, end - at), at))
                    if got == 0:
                        break
                    at += got
            finally:
                os.close(descriptor)

        return warm

    def warmed(self) -> None:
        """The pages of the first slice are in memory."""
        self._warm = True

    def close(self) -> None:
        """Drop the queue and release its slices."""
        for part in self.queue:
            if type(part) is not bytes:
                part.release()
        self.queue.clear()
        self.queued_bytes = self._slices_bytes = 0


def is_in_memory(descriptor: int, position: int, size: int) -> bool:
    """Whether the first and last page of a range can be read without waiting for the disk.

    Two one-byte reads, 0.8 us each when they can; a miss also starts read-ahead.
    """
    try:
        os.preadv(descriptor, (_PROBE,), position, os.RWF_NOWAIT)
        if size > 4096:
            os.preadv(descriptor, (_PROBE,), position + size - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without RWF_NOWAIT (tmpfs on old kernels) holds its pages in memory.
        return True
    return True
