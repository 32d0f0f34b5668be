"""A loop with clients of other brokers; it runs only while the test waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvloop

from odradek.broker.interbroker.network_client import NetworkClients
from odradek.runtime.clock import SystemClock
from odradek.runtime.pending import Pending
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver

WAIT_S: Final = 60.0
LONG_MS: Final = 60_000


class ClientLoop:
    """The loop, its timers and its clients."""

    def __init__(self, *, request_timeout_ms: int = LONG_MS) -> None:
        self.loop = uvloop.new_event_loop()
        self.clock = SystemClock()
        self.wheel = WheelDriver(self.loop, self.clock, TimingWheel(self.clock.monotonic_ms()))
        self.clients = NetworkClients(
            self.loop, self.wheel, connect_timeout_ms=LONG_MS, request_timeout_ms=request_timeout_ms
        )

    def turn(self) -> None:
        """One iteration of the loop."""
        self.loop.call_later(0.001, self.loop.stop)
        self.loop.run_forever()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Run the loop until the condition is true."""
        deadline_ms = self.clock.monotonic_ms() + WAIT_S * 1_000
        while not condition():
            assert self.clock.monotonic_ms() < deadline_ms, what
            self.turn()

    def result(self, pending: Pending[Any]) -> Any:
        """Run the loop until the pending is done."""
        self.until(lambda: pending.is_done, "a pending is done")
        return pending.result()

    def close(self) -> None:
        """End what was cancelled, and the loop."""
        self.wheel.close()
        for _ in range(10):
            self.turn()
        asyncio.set_event_loop(None)
        self.loop.close()


@contextmanager
def client_loop(*, request_timeout_ms: int = LONG_MS) -> Iterator[ClientLoop]:
    """A loop for one test."""
    made = ClientLoop(request_timeout_ms=request_timeout_ms)
    try:
        yield made
    finally:
        made.close()
