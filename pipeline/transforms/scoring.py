"""How far a value lies from those before it: pure functions over numbers.

A value that is called an anomaly enters the memory as the farthest value that would not have been,
so that a spike hides nothing that follows it, and a new level is accepted after a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from pipeline.spec.steps import Anomalies

LEAST_DEVIATION: Final = 1e-9
"""Of the mean's size: values that do not vary at all make any change infinite otherwise."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One value judged; no `expected` and `score` before there is something to compare with."""

    score: float | None
    expected: float | None
    is_anomaly: bool


class Memory:
    """What a group's values were.

    history  the last ones (zscore), oldest first; or [mean, variance, count] (ewma)
    """

    __slots__ = ("_step", "history")

    def __init__(self, step: Anomalies, history: Sequence[float] = ()) -> None:
        self._step = step
        self.history = list(history)

    def judge(self, value: float) -> Scored:
        """Compare a value with those before it, then remember it."""
        return self._zscore(value) if self._step.method == "zscore" else self._ewma(value)

    def _score(self, value: float, mean: float, variance: float, count: int) -> Scored:
        if count < self._step.minimum:
            return Scored(None, mean if count else None, is_anomaly=False)
        deviation = max(sqrt(variance), abs(mean) * LEAST_DEVIATION, 1e-300)
        score = (value - mean) / deviation
        return Scored(score, mean, is_anomaly=abs(score) > self._step.threshold)

    def _tamed(self, value: float, scored: Scored, deviation: float) -> float:
        if not scored.is_anomaly or scored.expected is None:
            return value
        bound = self._step.threshold * deviation
        return min(max(value, scored.expected - bound), scored.expected + bound)

    def _zscore(self, value: float) -> Scored:
        count = len(self.history)
        mean = sum(self.history) / count if count else 0.0
        variance = sum((one - mean) ** 2 for one in self.history) / count if count else 0.0
        scored = self._score(value, mean, variance, count)
        self.history.append(self._tamed(value, scored, sqrt(variance)))
        del self.history[: -self._step.history]
        return scored

    def _ewma(self, value: float) -> Scored:
        mean, variance, count = self.history or (value, 0.0, 0.0)
        scored = self._score(value, mean, variance, int(count))
        difference = self._tamed(value, scored, sqrt(variance)) - mean
        step = self._step.alpha * difference
        # Finch's incremental form of the exponentially weighted variance.
        variance = (1 - self._step.alpha) * (variance + difference * step)
        self.history = [mean + step, variance, count + 1]
        return scored
