"""The clock of a broker whose time tests advance."""

from __future__ import annotations

from odradek.runtime.clock import Clock


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
