"""One hierarchical timing wheel for every time-out of a broker.

Pure: time is passed as `now_ms`, and the caller runs the callbacks that `advance` returns.

    level 0    20 slots of 1 ms      -> 20 ms
    level 1    20 slots of 20 ms     -> 400 ms
    level n    20 slots of 20^n ms   created when first needed

Insert and cancel are O(1); a timer of a higher level moves to a lower one when its slot opens.
Source: Kafka's TimingWheel and SystemTimer; Varghese and Lauck, 1987.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

SLOTS: Final = 20


class Timer:
    """A callback and its deadline."""

    __slots__ = ("_slot", "callback", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback = callback
        self._slot: dict[Timer, None] | None = None

    def cancel(self) -> None:
        """Remove the timer from the wheel; O(1); no error when it has fired or was cancelled."""
        slot = self._slot
        if slot is not None:
            self._slot = None
            del slot[self]

    def is_pending(self) -> bool:
        """Whether the timer will fire."""
        return self._slot is not None

    def _place(self, slot: dict[Timer, None]) -> None:
        self._slot = slot
        slot[self] = None

    def _taken(self) -> None:
        self._slot = None


class TimingWheel:
    """Timers by deadline: a dict of slots per level, and a heap of their opening times."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._slots: dict[int, dict[int, dict[Timer, None]]] = {}
        self._openings: list[tuple[int, int]] = []

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Add a timer, which `advance` returns once `now_ms` has reached `deadline_ms`.

        A deadline that has passed already fires at the next `advance`.
        """
        timer = Timer(deadline_ms, callback)
        self._insert(timer)
        return timer

    def _insert(self, timer: Timer) -> None:
        wait_ms = timer.deadline_ms - self.now_ms
        width_ms = 1
        while wait_ms >= width_ms * SLOTS:
            width_ms *= SLOTS
        opening_ms = max(timer.deadline_ms, self.now_ms) // width_ms * width_ms
        level = self._slots.setdefault(width_ms, {})
        slot = level.get(opening_ms)
        if slot is None:
            slot = level[opening_ms] = {}
            heapq.heappush(self._openings, (opening_ms, width_ms))
        timer._place(slot)

    def next_opening_ms(self) -> int | None:
        """When `advance` is to be called next, or None; never later than the earliest deadline.

        May be earlier than that: a slot of a higher level opens before its timers are due.
        """
        openings = self._openings
        while openings:
            opening_ms, width_ms = openings[0]
            if self._slots[width_ms][opening_ms]:
                return opening_ms
            heapq.heappop(openings)
            del self._slots[width_ms][opening_ms]
        return None

    def advance(self, now_ms: int) -> list[Callable[[], None]]:
        """Advance to `now_ms`; the callbacks that are due, by deadline.

        The order of callbacks with the same deadline is not that of `add`.  A `now_ms` below the
        last one counts as the last one.
        """
        self.now_ms = max(now_ms, self.now_ms)
        due: list[Timer] = []
        openings = self._openings
        while openings and openings[0][0] <= self.now_ms:
            opening_ms, width_ms = heapq.heappop(openings)
            for timer in self._slots[width_ms].pop(opening_ms):
                timer._taken()
                if timer.deadline_ms <= self.now_ms:
                    due.append(timer)
                else:
                    self._insert(timer)
        due.sort(key=lambda timer: timer.deadline_ms)
        return [timer.callback for timer in due]
