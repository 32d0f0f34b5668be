"""The clock of brokers, which a test advances instead of waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.testing.control import ControlClient, ControlFailed

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
PERIODS: Final = 20
"""A periodic timer fires about so often at most; brokers of a cluster pass one period in turn."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """The events while time was advanced.

    elapsed_ms  how much time has passed for the brokers
    fired       name of a timer -> how often it has fired, over all brokers
    """

    elapsed_ms: int
    fired: Mapping[str, int]


class KafkaClock:
    """The time of one broker, or of all brokers of a cluster."""

    def __init__(self, controls: Callable[[], Sequence[ControlClient]]) -> None:
        """controls  the channels of the running brokers, by id"""
        self._controls = controls

    def now_ms(self) -> int:
        """Wall time of the first broker, in milliseconds since 1970."""
        return int(self._controls()[0].get("/clock")["now_ms"])

    def ahead_ms(self) -> int:
        """How far the first broker is ahead of this machine."""
        return int(self._controls()[0].get("/clock")["ahead_ms"])

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
    ) -> Advanced:
        """Let time pass; returns when all timers of the span have fired, and what they have
        started has ended.

        raises  ControlFailed
        """
        span_ms = round(
            days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS + ms
        )
        controls = self._controls()
        grid_ms = max(1, -(-span_ms // PERIODS))
        step_ms = span_ms if len(controls) == 1 else grid_ms
        fired: Counter[str] = Counter()
        passed_ms = 0
        while True:
            part_ms = min(step_ms, span_ms - passed_ms)
            for control in controls:
                fired += _advance(control, part_ms, grid_ms)
            passed_ms += part_ms
            if passed_ms >= span_ms:
                return Advanced(span_ms, dict(sorted(fired.items())))


def _advance(control: ControlClient, part_ms: int, grid_ms: int) -> Counter[str]:
    done = control.post("/clock/advance", ms=part_ms, grid_ms=grid_ms)
    if not done["is_complete"]:
        raise ControlFailed(
            f"time was advanced by {part_ms} ms, but what timers have started has not ended after "
            f"{done['took_ms']:g} ms; fired: {done['fired']}"
        )
    return Counter(done["fired"])
