"""Wall time and monotonic time, passed in.

Pure code never reads a clock: it is given `now_ms`.  What does input and output owns a `Clock`.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored and shown, monotonic time for what is measured."""

    def now_ms(self) -> int:
        """Milliseconds since 1970; may jump when the host's clock is set."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never falls."""


class SystemClock:
    """The host's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
