"""How long callbacks keep the event loop, and how late its timers fire.

uvloop reports no slow callbacks, so the functions that the loop calls measure themselves: they take
`monotonic_ns` at their beginning and call `ran` at their end (0.2 us together).  Callbacks that are
not measured show in the lag: a timer that fires late has waited for one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic_ns
from typing import Final

from odradek.runtime.metrics import BrokerMetrics

SLOW_NS: Final = 100_000_000
"""Callbacks that take longer are logged."""
LOG_INTERVAL_NS: Final = 10_000_000_000
"""Between two lines; the next one counts the callbacks that were not logged."""

logger = logging.getLogger("odradek.loop")


class LoopWatch:
    """Updates the `loop_*` metrics."""

    __slots__ = ("_left_out", "_logged_at_ns", "_metrics", "_name_of", "_notable_ns")

    def __init__(
        self, metrics: BrokerMetrics, name_of: Callable[[Sequence[memoryview]], str] = repr
    ) -> None:
        """name_of  (the frames of a turn) -> their name"""
        self._metrics = metrics
        self._notable_ns = 1_000_000
        self._logged_at_ns = -LOG_INTERVAL_NS
        self._left_out = 0
        self._name_of = name_of

    def ran(self, began_ns: int, what: object) -> int:
        """A callback of the loop ended; returns how long it has taken.

        began_ns  `monotonic_ns` when it began
        what      its name, what was called, or a list of frames for `name_of`
        """
        took_ns = monotonic_ns() - began_ns
        if took_ns > self._notable_ns:
            self._note(took_ns, what)
        return took_ns

    def _note(self, took_ns: int, what: object) -> None:
        metrics = self._metrics
        metrics.loop_callback_max_ms = max(metrics.loop_callback_max_ms, took_ns // 1_000_000)
        # Callbacks shorter than this change no metric.
        self._notable_ns = min(max(took_ns, self._notable_ns), SLOW_NS)
        if took_ns <= SLOW_NS:
            return
        metrics.loop_slow_callbacks += 1
        now_ns = monotonic_ns()
        if now_ns - self._logged_at_ns < LOG_INTERVAL_NS:
            self._left_out += 1
            return
        logger.warning(
            "%s kept the event loop for %d ms%s",
            self._name(what),
            took_ns // 1_000_000,
            f"; {self._left_out} more since the last line" if self._left_out else "",
        )
        self._logged_at_ns = now_ns
        self._left_out = 0

    def _name(self, what: object) -> str:
        if isinstance(what, str):
            return what
        if isinstance(what, list):
            return self._name_of(what)
        while isinstance(what, partial):
            what = what.func
        named = what if hasattr(what, "__qualname__") else type(what)
        return f"{named.__module__}.{named.__qualname__}"

    def late(self, lag_ms: int) -> None:
        """A timer fired `lag_ms` after its deadline."""
        metrics = self._metrics
        metrics.loop_lag_ms = lag_ms
        metrics.loop_lag_max_ms = max(metrics.loop_lag_max_ms, lag_ms)
