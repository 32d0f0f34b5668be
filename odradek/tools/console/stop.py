"""SIGINT and SIGTERM let a client end in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNAL_CODE: Final = 128
"""Added to the number of the signal that ended the process, as in a shell."""


class Stop:
    """Whether a signal asks the tool to end."""

    def __init__(self) -> None:
        self.exit_code = 0

    def note(self, number: int, _: FrameType | None) -> None:
        """Signal handler.  A second signal ends the process."""
        self.exit_code = SIGNAL_CODE + number
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Note SIGINT and SIGTERM meanwhile."""
    stop = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [(number, signal.signal(number, stop.note)) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
