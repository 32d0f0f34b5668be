"""What quotas need of a connection: the time that its requests took, and whether it is muted.

A throttled client gets its response at once, and its connection is not read until the time is up
(KIP-219).  Made when a first request is measured: without quotas no connection has it.
Source: Kafka's ThrottledChannel.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import monotonic_ns
from types import coroutine

from odradek.runtime.timers import Timer
from odradek.runtime.work import Later, Step


class ConnectionThrottle:
    """One connection's time and mute."""

    __slots__ = ("_after", "_began_ns", "_on_end", "_spent_ns", "_timer", "_until_ms", "is_muted")

    def __init__(
        self, after: Callable[[int, Callable[[], None]], Timer], on_end: Callable[[], None]
    ) -> None:
        """
        after   adds a timer
        on_end  called when the connection may be read again
        """
        self._after = after
        self._on_end = on_end
        self._timer: Timer | None = None
        self._until_ms = 0
        self._began_ns = 0
        """When the work that goes on began; 0: none does."""
        self._spent_ns = 0
        """What was not taken yet."""
        self.is_muted = False

    def begin(self) -> bool:
        """Work for the connection begins; False when it is part of other work."""
        if self._began_ns:
            return False
        self._began_ns = monotonic_ns()
        return True

    def end(self) -> None:
        """The work has ended."""
        if self._began_ns:
            self._spent_ns += monotonic_ns() - self._began_ns
            self._began_ns = 0

    def take_ns(self) -> int:
        """What was spent since the last call, up to now."""
        spent_ns, self._spent_ns = self._spent_ns, 0
        if self._began_ns:
            now_ns = monotonic_ns()
            spent_ns += now_ns - self._began_ns
            self._began_ns = now_ns
        return spent_ns

    def mute(self, throttle_ms: int, now_ms: int) -> None:
        """Do not read for a while; a mute that ends later stays."""
        until_ms = now_ms + throttle_ms
        if self._timer is not None:
            if until_ms <= self._until_ms:
                return
            self._timer.cancel()
        self.is_muted = True
        self._until_ms = until_ms
        self._timer = self._after(throttle_ms, self._unmute)

    def _unmute(self) -> None:
        self.is_muted = False
        self._timer = None
        self._on_end()

    def close(self) -> None:
        """The connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@coroutine
def measured(work: Later[None], throttle: ConnectionThrottle) -> Generator[Step, None, None]:
    """Count the time of each slice, unless it is part of a turn, which is counted."""
    try:
        while True:
            is_counted = throttle.begin()
            try:
                step = work.send(None)
            except StopIteration:
                return
            finally:
                if is_counted:
                    throttle.end()
            yield step
    finally:
        work.close()
