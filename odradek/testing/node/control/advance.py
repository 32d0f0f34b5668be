"""How time is advanced from deadline to deadline.

Pure.  A span may be long and timers short: eight days of a timer of 500 ms are a million calls.  So
a span has a grid of at most `PERIODS` intervals.  A periodic timer whose interval is shorter than
the grid's is due once at each point of the grid, and at the end of the span; all others are due
when they say.  Timers that are not periodic fire exactly at their deadlines, until those of one
name have fired `EXACT_CALLS` times; then what is added is due at the next point of the grid at the
earliest.  So every advance ends.
"""

from __future__ import annotations

from typing import Final

PERIODS: Final = 20
"""Each writes checkpoints, and waits for the disk."""
EXACT_CALLS: Final = 5_000


class Advance:
    """One span of time that is passed in steps.

    fired  name -> how often timers of this name have fired
    """

    def __init__(self, begin_ms: int, end_ms: int, grid_ms: int | None = None) -> None:
        """
        begin_ms  the time of the timing wheel
        grid_ms   the least interval of periodic timers; None: the span in `PERIODS` parts
        """
        assert end_ms >= begin_ms, "time does not go back"
        self.begin_ms = begin_ms
        self.end_ms = end_ms
        self.now_ms = begin_ms
        self.grid_ms = max(1, grid_ms or -((begin_ms - end_ms) // PERIODS))
        self.fired: dict[str, int] = {}
        self._is_chained = False

    def step(self, opening_ms: int | None) -> bool:
        """Go to the next opening of the wheel, or to the end of the span.

        opening_ms  `TimingWheel.next_opening_ms`, which may be in the past
        returns     whether timers may be due now; False at the end
        """
        if opening_ms is None or opening_ms > self.end_ms:
            self.now_ms = self.end_ms
            return False
        self.now_ms = max(self.now_ms, opening_ms)
        return True

    def note(self, name: str) -> None:
        """A timer of this name fires now; timers that it and others add after `EXACT_CALLS` of one
        name wait for the grid."""
        count = self.fired[name] = self.fired.get(name, 0) + 1
        if count >= EXACT_CALLS:
            self._is_chained = True

    def next_call_ms(self, interval_ms: int) -> int:
        """When a periodic timer that fires now is due again."""
        if interval_ms >= self.grid_ms or self.now_ms >= self.end_ms:
            return self.now_ms + interval_ms
        return self._grid_point_ms()

    def deadline_ms(self, deadline_ms: int) -> int:
        """When a timer that is added now is due."""
        return max(deadline_ms, self._grid_point_ms()) if self._is_chained else deadline_ms

    def _grid_point_ms(self) -> int:
        """The first one after now: the end of the span is the last, and after it there is none."""
        if self.now_ms >= self.end_ms:
            return self.end_ms + 1
        passed = (self.now_ms - self.begin_ms) // self.grid_ms + 1
        return min(self.begin_ms + passed * self.grid_ms, self.end_ms)
