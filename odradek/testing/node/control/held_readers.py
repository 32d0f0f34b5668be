"""The event loop that connections of clients are given: it can stop reading from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class HeldReaders:
    """Readers and writers of a loop; while they are held, no reader is called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._readers: dict[int, Callable[[], Any]] = {}
        self._is_held = False
        self.add_writer = loop.add_writer
        self.remove_writer = loop.remove_writer

    def add_reader(self, descriptor: int, callback: Callable[[], Any]) -> None:
        """Call `callback` when the descriptor is readable; held readers are called later."""
        self._readers[descriptor] = callback
        if not self._is_held:
            self._loop.add_reader(descriptor, callback)

    def remove_reader(self, descriptor: int) -> bool:
        """Call nothing for the descriptor any more; whether it had a reader."""
        is_known = self._readers.pop(descriptor, None) is not None
        if not self._is_held:
            self._loop.remove_reader(descriptor)
        return is_known

    def hold(self) -> None:
        self._is_held = True
        for descriptor in self._readers:
            self._loop.remove_reader(descriptor)

    def release(self) -> None:
        self._is_held = False
        for descriptor, callback in self._readers.items():
            self._loop.add_reader(descriptor, callback)
