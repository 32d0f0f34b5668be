"""The clock and the timing wheel of a broker whose time tests advance."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from time import monotonic

from odradek.runtime.clock import Clock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.timers import Timer, TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.testing.node.control.advance import Advance


class AdvancedClock:
    """A `Clock` that runs as another one does, some time ahead of it, or stands still."""

    def __init__(self, host: Clock, ahead_ms: int = 0) -> None:
        self.host = host
        self.ahead_ms = ahead_ms
        """How far it is ahead of the host's clock."""
        self._still_ms: tuple[int, int] | None = None
        """(wall, monotonic) time while it stands still."""

    def now_ms(self) -> int:
        still_ms = self._still_ms
        return self.host.now_ms() + self.ahead_ms if still_ms is None else still_ms[0]

    def monotonic_ms(self) -> int:
        still_ms = self._still_ms
        return self.host.monotonic_ms() + self.ahead_ms if still_ms is None else still_ms[1]

    def stop(self) -> None:
        """Stand still from now on."""
        self._still_ms = self.now_ms(), self.monotonic_ms()

    def move_to(self, monotonic_ms: int) -> None:
        """Move forward to this monotonic time, wall time by as much; it stands still."""
        assert self._still_ms is not None, "it runs"
        by_ms = monotonic_ms - self._still_ms[1]
        assert by_ms >= 0, "monotonic time never falls"
        self._still_ms = self._still_ms[0] + by_ms, monotonic_ms

    def go_on(self) -> None:
        """Run again from where it stands."""
        assert self._still_ms is not None, "it runs"
        self.ahead_ms = self._still_ms[1] - self.host.monotonic_ms()
        self._still_ms = None


class PeerClock:
    """Wall time as the broker has it; monotonic time as the host has it."""

    def __init__(self, clock: AdvancedClock) -> None:
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.host.monotonic_ms


logger = logging.getLogger("odradek.test_control")

Settle = Callable[[int], Awaitable[None]]
"""(milliseconds that have passed since the last call) -> awaited before the next step."""


class AdvancedWheel(WheelDriver):
    """Turns by itself in real time, and from deadline to deadline while it is advanced."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: AdvancedClock, watch: LoopWatch
    ) -> None:
        super().__init__(loop, clock, TimingWheel(clock.monotonic_ms()), watch)
        self._advanced_clock = clock
        self._advance: Advance | None = None
        self._is_stopped = False

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        if self._advance is not None:
            deadline_ms = self._advance.deadline_ms(deadline_ms)
        return super().add(deadline_ms, callback)

    async def advance(
        self, span_ms: int, grid_ms: int | None, settle: Settle, deadline_s: float
    ) -> Advance:
        """Pass a span of time, in which every timer sees the time of its deadline.

        settle      called whenever timers have fired
        deadline_s  of `time.monotonic`; what is due later fires at once at the end of the span
        """
        assert self._advance is None, "one advance at a time"
        clock = self._advanced_clock
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        clock.stop()
        begin_ms = settled_ms = clock.monotonic_ms()
        self._wheel_up_to(begin_ms)
        advance = self._advance = Advance(begin_ms, begin_ms + span_ms, grid_ms)
        # So that `add` neither turns nor schedules the wheel.
        self._is_turning = True
        try:
            while advance.step(self._wheel.next_opening_ms()) and monotonic() < deadline_s:
                clock.move_to(advance.now_ms)
                if self._fire(advance):
                    await settle(advance.now_ms - settled_ms)
                    settled_ms = advance.now_ms
            clock.move_to(advance.end_ms)
            await settle(advance.end_ms - settled_ms)
        finally:
            self._advance = None
            self._is_turning = False
            clock.go_on()
            if not self._is_stopped:
                self._schedule(clock.monotonic_ms())
        return advance

    def _wheel_up_to(self, now_ms: int) -> None:
        """An empty wheel has not been advanced for long; what is due now fires first."""
        if self._wheel.next_opening_ms() is None:
            self._wheel.advance(now_ms)

    def _fire(self, advance: Advance) -> bool:
        """Fire what is due; returns whether anything was."""
        callbacks = self._wheel.advance(advance.now_ms)
        for callback in callbacks:
            advance.note(timer_name(callback))
        for callback in (*callbacks, *self._after_turn) if callbacks else ():
            try:
                callback()
            except Exception:
                logger.exception("a timer's callback failed")
        return bool(callbacks)

    def _schedule(self, wake_ms: int) -> None:
        if self._advance is None:
            super()._schedule(wake_ms)

    def _next_call_ms(self, interval_ms: int) -> int:
        if self._advance is not None:
            return self._advance.next_call_ms(interval_ms)
        return super()._next_call_ms(interval_ms)

    def close(self) -> None:
        self._is_stopped = True
        super().close()


def timer_name(callback: Callable[[], None]) -> str:
    """What fires, such as `Retention.run`; a function within a method has the method's name."""
    while isinstance(callback, functools.partial):
        callback = callback.func
    name: str = getattr(callback, "__qualname__", type(callback).__name__)
    return name.partition(".<locals>")[0]
