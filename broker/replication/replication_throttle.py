"""Bounds the bytes in a second that a broker sends to followers, or fetches as a follower.

Only replicas that a topic names are throttled, and only while they are not in sync: throttling
those would remove them from the in-sync replicas.  Pure but for the time and the settings, which
are asked for.

Source: KIP-73; Kafka's ReplicationQuotaManager, SimpleRate, TopicConfigHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Final

UNLIMITED: Final = 2**63 - 1
ALL: Final = "*"
TEXTS_MAX: Final = 256
"""Lists of throttled replicas that are kept parsed."""


class RateWindow:
    """Bytes of the last `count` windows of `length_ms`."""

    def __init__(self, count: int, length_ms: int) -> None:
        self._count = count
        self._length_ms = length_ms
        self._windows: deque[tuple[int, int]] = deque()
        """(begin in ms, bytes), the oldest first."""

    def record(self, size: int, now_ms: int) -> None:
        """Bytes were sent or received."""
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._length_ms:
            began_ms, bytes_so_far = windows.pop()
            windows.append((began_ms, bytes_so_far + size))
        else:
            windows.append((now_ms, size))
        self._purge(now_ms)

    def bytes_per_second(self, now_ms: int) -> float:
        """The rate since the oldest window began, counted over one window at least."""
        self._purge(now_ms)
        if not self._windows:
            return 0.0
        elapsed_ms = max(now_ms - self._windows[0][0], self._length_ms)
        return sum(size for _, size in self._windows) * 1_000 / elapsed_ms

    def _purge(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._count * self._length_ms
        while self._windows and self._windows[0][0] <= oldest_ms:
            self._windows.popleft()


@lru_cache(TEXTS_MAX)
def throttled_partitions(text: str, broker_id: int) -> frozenset[int] | None:
    """The partitions of which a list names this broker's replica; None: all of them.

    text  `partition:broker,...` or `*`, as it was checked when it was stored
    """
    if text.strip() == ALL:
        return None
    pairs = (item.strip().split(":") for item in text.split(",") if item.strip())
    return frozenset(int(pair[0]) for pair in pairs if pair[1:] == [str(broker_id)])


class ReplicationThrottle:
    """The throttle of one direction.

    rate          bytes in a second now, `UNLIMITED` without a bound
    throttled     the list of throttled replicas of a topic, empty without one
    monotonic_ms  the time
    """

    def __init__(
        self,
        broker_id: int,
        window: RateWindow,
        *,
        rate: Callable[[], int],
        throttled: Callable[[str], str],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._window = window
        self._rate = rate
        self._throttled = throttled
        self._monotonic_ms = monotonic_ms

    @property
    def is_limited(self) -> bool:
        """Whether there is a bound."""
        return self._rate() < UNLIMITED

    def is_exceeded(self) -> bool:
        """Whether throttled replicas must wait."""
        rate = self._rate()
        if rate >= UNLIMITED:
            return False
        return self._window.bytes_per_second(self._monotonic_ms()) > rate

    def is_throttled(self, topic: str, index: int) -> bool:
        """Whether this broker's replica is throttled, in sync or not."""
        text = self._throttled(topic)
        if not text:
            return False
        partitions = throttled_partitions(text, self._broker_id)
        return partitions is None or index in partitions

    def record(self, size: int) -> None:
        """Bytes of a throttled replica were sent or received."""
        self._window.record(size, self._monotonic_ms())
