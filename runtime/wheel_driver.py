"""Turns the timing wheel on an event loop: one pending wake-up for any number of timers.

A wake-up that comes late proves nothing: what arrived in time (a heartbeat, a fetch, another
member's JoinGroup) may wait in the sockets of a loop that did not run, and uvloop runs timers
before readers.  Timers fire then after the loop has read its sockets.

After a stall there may be more in them than one turn of the loop reads: connections are put off
into the rounds of the scheduler.  Timers fire when all of those have had their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import repeat
from time import monotonic_ns
from typing import Final

from odradek.runtime.clock import Clock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.scheduler import ROUND_NS, Scheduler
from odradek.runtime.timers import Timer, TimingWheel

LATE_MS: Final = 2
"""Wake-ups that are this late wait until the loop has read its sockets."""
READING_TURNS: Final = 3
"""Turns of the loop before the one in which timers fire: it looks at the sockets after the first,
and calls what reads them in the second or the third."""
STALL_MS: Final = 100
"""Wake-ups that are this late wait for the connections that were put off, too.  A busy loop, whose
rounds make each wake-up a few milliseconds late, has read what came in the time of a heartbeat."""
ROUNDS_MAX: Final = 2_500
"""Then timers fire in any case, about 10 s later, or as long after the stall as it has lasted.
Rounds are counted, and so no time in which the process does not run."""

logger = logging.getLogger("odradek.timers")


class WheelDriver:
    """A timing wheel that advances itself."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        wheel: TimingWheel,
        watch: LoopWatch | None = None,
    ) -> None:
        """watch  measures how long the callbacks take, and how late they fire"""
        self._loop = loop
        self._watch = watch
        self._clock = clock
        self._wheel = wheel
        self._handle: asyncio.Handle | None = None
        self._wake_ms = 0
        self._is_turning = False
        self._after_turn: list[Callable[[], None]] = []
        self._scheduler: Scheduler | None = None

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Add a timer; its callback runs on the loop, and its exceptions are logged."""
        wheel = self._wheel
        if self._handle is None and not self._is_turning:
            # The wheel is empty, and may not have been advanced for long.
            wheel.advance(self._clock.monotonic_ms())
        timer = wheel.add(deadline_ms, callback)
        if not self._wakes_before(deadline_ms):
            self._schedule(deadline_ms)
        return timer

    def after(self, wait_ms: int, callback: Callable[[], None]) -> Timer:
        """Add a timer that is due in `wait_ms`."""
        return self.add(self._clock.monotonic_ms() + wait_ms, callback)

    def after_each_turn(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever timers have fired, after the last one."""
        self._after_turn.append(callback)

    def wait_for(self, scheduler: Scheduler) -> None:
        """After a stall, fire when all that wait for a slice then have had it."""
        self._scheduler = scheduler

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        """Call repeatedly, each time `interval_ms` after the last call returned."""

        @wraps(callback)
        def run() -> None:
            try:
                callback()
            finally:
                self.add(self._next_call_ms(interval_ms), run)

        self.add(self._next_call_ms(interval_ms), run)

    def _next_call_ms(self, interval_ms: int) -> int:
        """When a periodic timer is due again."""
        return self._clock.monotonic_ms() + interval_ms

    def _schedule(self, wake_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._wake_ms = wake_ms
        wait_ms = max(0, wake_ms - self._clock.monotonic_ms())
        self._handle = self._loop.call_later(wait_ms / 1000, self._on_wake)

    def _on_wake(self) -> None:
        self._turn_after(self._waits(self._clock.monotonic_ms() - self._wake_ms))

    def _turn_after(self, waits: Iterator[None]) -> None:
        """Advance `waits` in each turn of the loop; timers fire when it has ended."""
        for _ in waits:
            # A short wait would leave the loop idle beside work that waits for it.
            self._handle = self._loop.call_soon(self._turn_after, waits)
            return
        self._turn()

    def _waits(self, late_ms: int) -> Iterator[None]:
        """An item for each turn of the loop before the one in which timers fire."""
        if late_ms < LATE_MS:
            return
        yield from repeat(None, READING_TURNS)
        if late_ms < STALL_MS or self._scheduler is None:
            return
        mark = self._scheduler.mark()
        for _ in range(min(ROUNDS_MAX, late_ms * 1_000_000 // ROUND_NS)):
            if mark.is_passed:
                return
            yield  # the scheduler has one round in each turn of the loop

    def _turn(self) -> None:
        self._handle = None
        self._is_turning = True
        now_ms = self._clock.monotonic_ms()
        if self._watch is not None:
            self._watch.late(max(0, now_ms - self._wake_ms))
        for callback in (*self._wheel.advance(now_ms), *self._after_turn):
            began_ns = monotonic_ns()
            try:
                callback()
            except Exception:
                logger.exception("a timer's callback failed")
            if self._watch is not None:
                self._watch.ran(began_ns, callback)
        self._is_turning = False
        opening_ms = self._wheel.next_opening_ms()
        if opening_ms is not None and not self._wakes_before(opening_ms):
            self._schedule(opening_ms)

    def _wakes_before(self, deadline_ms: int) -> bool:
        return self._handle is not None and self._wake_ms <= deadline_ms

    def close(self) -> None:
        """Stop: no timer fires any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
