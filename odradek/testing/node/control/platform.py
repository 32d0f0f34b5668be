"""The platform of a broker whose time tests advance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.runtime.clock import Clock
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.testing.node.client_requests import ClientRequests
from odradek.testing.node.control.advanced_wheel import AdvancedWheel
from odradek.testing.node.control.clock import AdvancedClock, PeerClock
from odradek.testing.node.platform import InstrumentedPlatform
from odradek.testing.node.releases import ServedRelease


class ControlledPlatform(InstrumentedPlatform):
    """Its clock may be advanced; connections between brokers keep real time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_fatal: Callable[[str], None],
        requests: ClientRequests,
        release: ServedRelease | None,
        broker_at: Callable[[str, int], int | None],
        clock: AdvancedClock,
        is_fsync_enabled: bool = True,
    ) -> None:
        self.advanced_clock = clock
        super().__init__(
            loop,
            on_fatal=on_fatal,
            requests=requests,
            release=release,
            broker_at=broker_at,
            is_fsync_enabled=is_fsync_enabled,
        )
        self.peer_wheel.after_each_turn(self.purgatory.run_notified)

    def _open_clock(self) -> Clock:
        return self.advanced_clock

    def _open_wheel(self) -> WheelDriver:
        self.advanced_wheel = AdvancedWheel(self.loop, self.advanced_clock, self.loop_watch)
        return self.advanced_wheel

    def _open_peer_time(self) -> tuple[Clock, WheelDriver]:
        clock = PeerClock(self.advanced_clock)
        wheel = TimingWheel(clock.monotonic_ms())
        return clock, WheelDriver(self.loop, clock, wheel, self.loop_watch)

    def close(self) -> None:
        self.peer_wheel.close()
        super().close()
