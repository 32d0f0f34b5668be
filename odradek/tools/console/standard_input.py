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
    """The same input; a signal that comes while it waits is handled at once.

    A plain read waits on when the signal came just before it, or to another thread.  Only in the
    main thread.
    """
    try:
        descriptor = file.fileno()
    except OSError:
        # It is no file of the system's, and never waits.
        yield file
        return
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        yield io.BufferedReader(_Waiting(descriptor, woken))
    finally:
        signal.set_wakeup_fd(before)
        os.close(waker)
        os.close(woken)


class _Waiting(io.RawIOBase):
    """Reads a descriptor when there is something to read.

    woken  readable after a signal
    """

    def __init__(self, descriptor: int, woken: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._woken = woken

    def readable(self) -> bool:
        """It is what it is for."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """What is there, up to the size of the buffer; 0 at the end."""
        while True:
            ready, _, _ = select.select([self._descriptor, self._woken], [], [])
            if self._woken not in ready:
                content = os.read(self._descriptor, len(buffer))
                buffer[: len(content)] = content
                return len(content)
            # Its handler has run by the time this returns, and may have raised.
            os.read(self._woken, SIGNALS_AT_ONCE)
