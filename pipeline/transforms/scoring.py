"""Scores a value by its distance from earlier values: pure functions over numbers.

An anomaly is stored as the farthest value that would not have been one, so that a spike does not
hide later anomalies.  `minimum` anomalies in a row are a new level and replace the stored values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Final, Self

from odradek.pipeline.spec.steps import Anomalies

LEAST_DEVIATION: Final = 1e-9
"""Lower bound of a deviation, relative to the mean: constant values have a deviation of 0."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of one value; `expected` and `score` are None before there are enough values."""

    score: float | None
    expected: float | None
    is_anomaly: bool


def mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """Mean and population variance; 0 and 0 for no values."""
    if not values:
        return 0.0, 0.0
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values)


class Memory:
    """The earlier values of a group.

    history  the last values (zscore), oldest first; or [mean, variance, count] (ewma)
    streak   the anomalies since the last normal value

    cost     of a score: one pass over the history (zscore), or constant (ewma)
    """

    __slots__ = ("_step", "history", "streak")

    def __init__(self, step: Anomalies) -> None:
        self._step = step
        self.history: list[float] = []
        self.streak: list[float] = []

    @classmethod
    def from_text(cls, step: Anomalies, text: str) -> Self:
        """The inverse of `to_text`."""
        memory = cls(step)
        memory.history, memory.streak = json.loads(text)
        return memory

    def to_text(self) -> str:
        """JSON; numbers are exact."""
        return json.dumps([self.history, self.streak])

    def judge(self, value: float) -> Scored:
        """Score a value, then store it.

        A value that is not finite is an anomaly without a score, and is not stored.
        """
        if not isfinite(value):
            return Scored(None, None, is_anomaly=True)
        scored = self._zscore(value) if self._step.method == "zscore" else self._ewma(value)
        if not scored.is_anomaly:
            self.streak.clear()
            return scored
        self.streak.append(value)
        if len(self.streak) >= self._step.minimum:
            self._start_new_level()
        return scored

    def _start_new_level(self) -> None:
        if self._step.method == "zscore":
            self.history = self.streak[-self._step.history :]
        else:
            self.history = [*mean_and_variance(self.streak), float(len(self.streak))]
        self.streak = []

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
        mean, variance = mean_and_variance(self.history)
        scored = self._score(value, mean, variance, len(self.history))
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
