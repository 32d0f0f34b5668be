"""Rates over windows, token buckets, and the time by which a client is throttled.

Pure: time is passed as `now_ms`, monotonic milliseconds.
Source: Kafka's Rate, SampledStat, TokenBucket, QuotaUtils (KIP-13, KIP-599).
"""

from __future__ import annotations

from collections import deque
from math import copysign
from typing import Final

THROTTLE_MAX_MS: Final = 2**31 - 1
"""The largest `throttle_time_ms` of a response."""


class SampledRate:
    """What was recorded in the last `count` windows of `length_ms`, per second.

    A client that begins to send is measured over all windows but one, so that its first request is
    not taken for a rate.
    """

    __slots__ = ("_count", "_length_ms", "_samples")

    def __init__(self, count: int, length_ms: int) -> None:
        self._count = count
        self._length_ms = length_ms
        self._samples: deque[list[float]] = deque(maxlen=count + 1)
        """[begin in ms, last record in ms, sum], the oldest first."""

    def record(self, value: float, now_ms: int) -> None:
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._length_ms:
            sample = samples[-1]
            sample[1] = now_ms
            sample[2] += value
        else:
            samples.append([now_ms, now_ms, value])

    def measure(self, now_ms: int) -> tuple[float, int]:
        """(rate per second, milliseconds over which it is measured)."""
        samples, length_ms = self._samples, self._length_ms
        oldest_ms = now_ms - self._count * length_ms
        while samples and samples[0][1] <= oldest_ms:
            samples.popleft()
        if not samples:
            return 0.0, max(1, (self._count - 1) * length_ms)
        elapsed_ms = now_ms - int(samples[0][0])
        missing = self._count - 1 - elapsed_ms // length_ms
        if missing > 0:
            elapsed_ms += missing * length_ms
        elapsed_ms = max(1, elapsed_ms)
        return sum([sample[2] for sample in samples]) * 1_000 / elapsed_ms, elapsed_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may be recorded until the rate is down to `limit`; 0: it is within it.

        As in Kafka, a negative limit throttles nothing, and neither does the zero below zero.
        """
        rate, window_ms = self.measure(now_ms)
        if rate <= limit or copysign(1, limit) < 0:
            return 0
        if limit == 0:
            return THROTTLE_MAX_MS
        return round(min((rate - limit) / limit * window_ms, THROTTLE_MAX_MS))


class TokenBucket:
    """Tokens that come at a rate, up to those of `burst_s` seconds.  May be in debt."""

    __slots__ = ("_burst_s", "_tokens", "_updated_ms")

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._tokens: float | None = None
        """None: as many as it can hold."""
        self._updated_ms = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """What is there now.

        rate  tokens per second; without any at 0 and below
        """
        rate = max(rate, 0.0)
        burst = rate * self._burst_s
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens += rate * (now_ms - self._updated_ms) / 1_000
        self._tokens = min(burst, self._tokens)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, whether they are there or not."""
        self._tokens = self.tokens(rate, now_ms) - count

    def is_in_debt(self, rate: float, now_ms: int) -> bool:
        """Whether nothing more may be taken now.  As in Kafka, that is so at a negative rate."""
        return rate < 0 or self.tokens(rate, now_ms) < 0

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """How long it takes until the debt is paid; 0 without one, and for one that stays."""
        tokens = self.tokens(rate, now_ms)
        if tokens >= 0 or rate <= 0:
            return 0
        return round(min(-tokens / rate * 1_000, THROTTLE_MAX_MS))
