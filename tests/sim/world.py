"""Virtual time: one queue of events for everything in a simulation."""

from __future__ import annotations

import heapq
import random
from asyncio import events
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

HISTORY_MAX: Final = 400
TICK_NS: Final = 20_000
START_US: Final = 1_700_000_000_000_000


class Broken(AssertionError):
    """A promise was broken; the text says which."""


class Ticks:
    """A clock that moves with each reading: slices end at the same step in each run."""

    def __init__(self) -> None:
        self._now_ns = 0

    def __call__(self) -> int:
        self._now_ns += TICK_NS
        return self._now_ns


class World:
    """Time in microseconds, random numbers, and what has happened."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_us = START_US
        self.slice_clock = Ticks()
        """By which the product measures slices: time does not pass within a callback."""
        self.history: deque[str] = deque(maxlen=HISTORY_MAX)
        self.counts: Counter[str] = Counter()
        """How often each fault has had an effect."""
        self.events = 0
        self.is_calm = False
        """No fault begins any more."""
        self.trouble: BaseException | str | None = None
        """What a broker ended by, or has logged: the history ends here."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self.running: object = None
        """What asyncio takes for the running loop."""
        self._now: deque[Callable[[], None]] = deque()
        """What happens before time goes on."""
        self.soon = self._now.append
        """Call before time goes on."""
        self._number = 0

    @property
    def elapsed_ms(self) -> int:
        return (self.now_us - START_US) // 1_000

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        """Call once, that much later."""
        if not delay_us:
            self._now.append(call)
            return
        self._number += 1
        heapq.heappush(self._queue, (self.now_us + delay_us, self._number, call))

    def at(self, due_us: int, call: Callable[[], None]) -> None:
        """Call once, at a time that is not now."""
        self._number = number = self._number + 1
        heapq.heappush(self._queue, (due_us, number, call))

    def run(self, until_ms: int) -> None:
        """Run the events up to a time since the start."""
        queue, now = self._queue, self._now
        end_us = START_US + until_ms * 1_000
        pop = heapq.heappop
        count = 0
        try:
            while True:
                while now:
                    count += 1
                    now.popleft()()
                if not queue or queue[0][0] > end_us:
                    break
                self.now_us, _, call = pop(queue)
                count += 1
                call()
        finally:
            self.events += count
            self.set_running(None)
        self.now_us = end_us

    def set_running(self, loop: Any) -> None:
        """What asyncio takes for the running loop, up to the end of `run`."""
        if loop is not self.running:
            self.running = loop
            events._set_running_loop(loop)

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.history.append(f"{self.elapsed_ms:>7} ms  {text}")

    def fail(self, reason: str) -> None:
        """A promise is broken."""
        raise Broken(reason)
