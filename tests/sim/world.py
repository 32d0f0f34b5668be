"""Virtual time: one queue of events for everything in a simulation."""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

HISTORY_MAX: Final = 400
START_US: Final = 1_700_000_000_000_000


class Broken(AssertionError):
    """A promise was broken; the text says which."""


class World:
    """Time in microseconds, random numbers, and what has happened."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_us = START_US
        self.history: deque[str] = deque(maxlen=HISTORY_MAX)
        self.counts: Counter[str] = Counter()
        """How often each fault has had an effect."""
        self.events = 0
        self.is_calm = False
        """No fault begins any more."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    @property
    def elapsed_ms(self) -> int:
        return (self.now_us - START_US) // 1_000

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        """Call once, that much later."""
        self._number += 1
        heapq.heappush(self._queue, (self.now_us + delay_us, self._number, call))

    def run(self, until_ms: int, after_each: Callable[[], None]) -> None:
        """Run the events up to a time since the start."""
        queue = self._queue
        end_us = START_US + until_ms * 1_000
        pop = heapq.heappop
        while queue and queue[0][0] <= end_us:
            self.now_us, _, call = pop(queue)
            self.events += 1
            call()
            after_each()
        self.now_us = end_us

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.history.append(f"{self.elapsed_ms:>7} ms  {text}")

    def fail(self, reason: str) -> None:
        """A promise is broken."""
        raise Broken(reason)
