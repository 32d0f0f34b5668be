"""Routes of the clock."""

from __future__ import annotations

from time import monotonic
from typing import Final

from odradek.testing.node.control.node import ControlledNode
from odradek.testing.node.control.routes import Arguments, Routes, conflict
from odradek.testing.node.control.work_under_way import WorkUnderWay

SPAN_MS_MAX: Final = 100 * 365 * 24 * 3_600_000
TIMEOUT_MS: Final = 30_000


class ClockRoutes:
    """The time of the broker, which a test can advance."""

    def __init__(self, node: ControlledNode) -> None:
        self._node = node
        self._platform = node.platform
        self._work = WorkUnderWay(node.parts)
        self._is_advancing = False

    def add_to(self, routes: Routes) -> None:
        routes.add("GET", "/clock", "the time, and how far it was advanced", self.show)
        routes.add(
            "POST",
            "/clock/advance",
            "let time pass: fire all timers of the span in order, and wait for what they start",
            self.advance,
            takes=("ms", "grid_ms", "timeout_ms"),
        )

    def show(self, arguments: Arguments) -> object:
        clock = self._platform.advanced_clock
        return {"now_ms": clock.now_ms(), "ahead_ms": clock.ahead_ms}

    async def advance(self, arguments: Arguments) -> object:
        """Clients of a broker without peers are not read meanwhile: they live in real time."""
        span_ms = arguments.integer("ms", most=SPAN_MS_MAX)
        grid_ms = arguments.integer("grid_ms", None, least=1, most=SPAN_MS_MAX)
        timeout_ms = arguments.integer("timeout_ms", TIMEOUT_MS, most=TIMEOUT_MS)
        wheel = self._platform.advanced_wheel
        if self._is_advancing:
            raise conflict("time is being advanced")
        self._is_advancing = True
        began_s = monotonic()
        deadline_s = began_s + timeout_ms / 1000
        steps = 0
        is_complete = True

        async def settle(passed_ms: int) -> None:
            nonlocal steps, is_complete
            steps += 1
            self._node.on_time_passed(passed_ms)
            is_complete = await self._work.settle(deadline_s) and is_complete

        self._node.hold_clients()
        try:
            # What clients have begun, and connections that have ended, are handled first.
            is_complete = await self._work.settle(deadline_s)
            done = await wheel.advance(span_ms, grid_ms, settle, deadline_s)
        finally:
            self._is_advancing = False
            self._node.release_clients()
        return {
            "advanced_ms": span_ms,
            "now_ms": self._platform.clock.now_ms(),
            "fired": dict(sorted(done.fired.items())),
            "steps": steps,
            "is_complete": is_complete and monotonic() < deadline_s,
            "took_ms": round((monotonic() - began_s) * 1000, 1),
        }
