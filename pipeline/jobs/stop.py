"""Handling of SIGTERM and SIGINT by a job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """A signal arrived that ends the job at once."""


class Stop:
    """Handles SIGTERM and SIGINT: they raise Stopped, or within `deferred` set `requested`."""

    def __init__(self) -> None:
        self.requested: Final = Event()
        self.number = 0
        self._is_deferred = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """A context in which the signals are handled; its end restores the previous handlers."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def install(self) -> None:
        """Install the handlers; to be called again after Spark has started, which replaces them."""
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: Any) -> None:
        self.number = number
        is_first = not self.requested.is_set()
        self.requested.set()
        if not (self._is_deferred and is_first):
            raise Stopped

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within, the first signal only sets `requested`; a second one raises Stopped."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
