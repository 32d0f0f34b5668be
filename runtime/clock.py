"""Time as it comes in from the outside.

Cores never read a clock: they are handed `now_ms`.  Edges own a `Clock`.
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
        """Milliseconds since 1970, from the host's wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds of the host's monotonic clock."""
        return time.monotonic_ns() // 1_000_000


class VirtualClock:
    """A clock that moves only when a test says so."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970, as last set."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """The same figure: a virtual clock never falls."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Move forward; `by_ms` is not negative."""
        assert by_ms >= 0, "a virtual clock never falls"
        self._now_ms += by_ms
