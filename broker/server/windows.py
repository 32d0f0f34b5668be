"""Mapped windows of segment files, for sending to clients on this machine.

Over the loopback interface sendfile passes the receiver sixteen small pieces a MiB, each a list of
pages that it copies slowly and each a wake-up: 0.5 to 0.6 CPU seconds a GB in the broker and as
much again in the client, at 850 MB/s.  A send from mapped memory costs 0.2 to 0.3 and reaches 1,000
to 1,500 MB/s (librdkafka, interleaved rounds; bench/RESULTS.md).  To other machines sendfile saves
the copy.

The process never reads the memory itself, only the kernel does, within `send`: when the file was
truncated meanwhile, the call fails with EFAULT, not the process with SIGBUS.  A window keeps the
blocks of its file on the disk, so windows that were not used since the last tick are dropped.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from mmap import PROT_READ, mmap
from typing import Final

WINDOW_BYTES: Final = 4 << 20
WINDOWS_MAX: Final = 8
"""Together 32 MiB at most, which count as resident memory while they are mapped."""

Key = tuple[int, int, int]
"""Device, inode, first byte; an inode is not used again while it is mapped."""


class Window:
    """A mapped range of a file."""

    __slots__ = ("size", "view", "was_used")

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self.view = memoryview(mmap(descriptor, size, prot=PROT_READ, offset=start))
        self.size = size
        self.was_used = True


class Windows:
    """The windows of one node, by last use."""

    def __init__(self) -> None:
        self._windows: OrderedDict[Key, Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def view(self, descriptor: int, position: int, size: int) -> memoryview:
        """Up to `size` bytes from `position`, fewer where a window ends; never none.

        raises  OSError, ValueError when the file ends before `position`
        """
        status = os.fstat(descriptor)
        start = position - position % WINDOW_BYTES
        end = min(position + size, start + WINDOW_BYTES, status.st_size)
        if position >= end:
            raise OSError("a file ended within a slice that is being sent")
        key = (status.st_dev, status.st_ino, start)
        window = self._windows.get(key)
        if window is None or start + window.size < end:
            window = Window(descriptor, start, min(WINDOW_BYTES, status.st_size - start))
            self._windows[key] = window
            if len(self._windows) > WINDOWS_MAX:
                self._windows.popitem(last=False)
        window.was_used = True
        self._windows.move_to_end(key)
        return window.view[position - start : end - start]

    def drop_idle(self) -> None:
        """Drop the windows that were not used since the last call."""
        for key in [key for key, window in self._windows.items() if not window.was_used]:
            del self._windows[key]
        for window in self._windows.values():
            window.was_used = False
