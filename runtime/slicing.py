"""Work on the event loop in time slices, between which the loop serves its clients.

The work checks the clock after each of its steps and returns to the loop when its slice is over, so
a slice is exceeded by at most one step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from odradek.runtime.clock import Clock

SLICE_MS: Final = 2

Defer = Callable[[Callable[[], None]], None]
"""Calls a function once, after the loop has served its clients."""


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


def run_in_slices(steps: Iterator[None], clock: Clock, defer: Defer) -> None:
    """Run the first slice now and defer each further one.

    raises  what a step of the first slice raises; what a later step raises reaches the caller of
            the deferred function
    """
    time_slice = TimeSlice(clock)
    for _ in steps:
        if time_slice.is_over():
            defer(_next_slice(steps, clock, defer))
            return


def _next_slice(steps: Iterator[None], clock: Clock, defer: Defer) -> Callable[[], None]:
    """The rest, under the name of the steps: `LoopWatch` logs it."""

    def next_slice() -> None:
        run_in_slices(steps, clock, defer)

    name = getattr(steps, "__qualname__", type(steps).__qualname__)
    next_slice.__qualname__ = f"{run_in_slices.__name__}({name})"
    return next_slice


class SharedSlices:
    """Works of which one has a slice in each turn of the loop: the first, which then is the last.

    So what they take from the loop's clients does not grow with their number, and one that is short
    does not wait for the end of long ones.
    """

    def __init__(self, clock: Clock, defer: Defer) -> None:
        self._clock = clock
        self._defer = defer
        self._waiting: deque[Iterator[None]] = deque()
        self._is_scheduled = False

    def add(self, steps: Iterator[None]) -> None:
        """Run these steps, from the next turn of the loop on.

        What a step raises ends these steps, and reaches the caller of the deferred function.
        """
        self._waiting.append(steps)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._defer(self._run)

    def _run(self) -> None:
        steps = self._waiting.popleft()
        time_slice = TimeSlice(self._clock)
        try:
            for _ in steps:
                if time_slice.is_over():
                    self._waiting.append(steps)
                    break
        finally:
            self._is_scheduled = bool(self._waiting)
            if self._is_scheduled:
                self._defer(self._run)
