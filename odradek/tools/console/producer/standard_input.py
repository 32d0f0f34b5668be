"""Standard input that Ctrl-C ends at once."""

from __future__ import annotations

import io
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

SIGNALS_AT_ONCE: Final = 64


@contextmanager
def interruptible(file: BinaryIO) -> Iterator[BinaryIO]:
    """Wrap a file, so that a signal handler runs at once while a read waits.

    A plain read keeps waiting when the signal arrives just before it, or in another thread.
    To be used in the main thread.
    """
    try:
        descriptor = file.fileno()
    except OSError:
        # An in-memory file: its reads never wait.
        yield file
        return
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        yield io.BufferedReader(_InterruptibleFile(descriptor, woken))
    finally:
        signal.set_wakeup_fd(before)
        os.close(waker)
        os.close(woken)


class _InterruptibleFile(io.RawIOBase):
    """Reads a descriptor; waits for data or a signal.

    woken  a descriptor that is readable after a signal
    """

    def __init__(self, descriptor: int, woken: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._woken = woken

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read the available bytes, at most the size of the buffer; 0 at the end of the file."""
        while True:
            ready, _, _ = select.select([self._descriptor, self._woken], [], [])
            if self._woken not in ready:
                content = os.read(self._descriptor, len(buffer))
                buffer[: len(content)] = content
                return len(content)
            # The signal handler runs before this call returns, and may raise.
            os.read(self._woken, SIGNALS_AT_ONCE)
