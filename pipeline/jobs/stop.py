"""What SIGTERM and SIGINT do to a job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """A signal came while nothing could be ended gently."""


class Stop:
    """What SIGTERM and SIGINT do: they interrupt, or while `gently`, they are only noted."""

    def __init__(self) -> None:
        self.asked: Final = Event()
        self.number = 0
        self._is_gentle = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within, signals come here; afterwards what was there before is back."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def install(self) -> None:
        """Spark puts a handler of its own in place when it starts: call it after that again."""
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: Any) -> None:
        self.number = number
        is_first = not self.asked.is_set()
        self.asked.set()
        if not (self._is_gentle and is_first):
            raise Stopped

    @contextmanager
    def gently(self) -> Iterator[None]:
        """Within, the first signal only sets `asked`."""
        self._is_gentle = True
        try:
            yield
        finally:
            self._is_gentle = False
