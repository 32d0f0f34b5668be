"""How far a value lies from those before it: pure functions over numbers.

A value that is called an anomaly enters the memory as the farthest value that would not have been,
so that a spike hides nothing that follows it.  As many anomalies in a row as a judgement needs rows
are a new level: the memory is then theirs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Final, Self

from odradek.pipeline.spec.steps import Anomalies

LEAST_DEVIATION: Final = 1e-9
"""Of the mean's size: values that do not vary at all make any change infinite otherwise."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One value judged; no `expected` and `score` before there is something to compare with."""

    score: float | None
    expected: float | None
    is_anomaly: bool


def mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """Of the values themselves, not of what they are a sample of; 0 and 0 of none."""
    if not values:
        return 0.0, 0.0
    mean = sum(values) / len(values)
    return mean, sum((one - mean) ** 2 for one in values) / len(values)


class Memory:
    """What a group's values were.

    history  the last ones (zscore), oldest first; or [mean, variance, count] (ewma)
    streak   the values since the last that was no anomaly, as they came

    cost     of a judgement: one pass over the history (zscore), or none (ewma)
    """

    __slots__ = ("_step", "history", "streak")

    def __init__(self, step: Anomalies) -> None:
        self._step = step
        self.history: list[float] = []
        self.streak: list[float] = []

    @classmethod
    def from_text(cls, step: Anomalies, text: str) -> Self:
        """What `to_text` has written."""
        memory = cls(step)
        memory.history, memory.streak = json.loads(text)
        return memory

    def to_text(self) -> str:
        """JSON, exact to the last bit."""
        return json.dumps([self.history, self.streak])

    def judge(self, value: float) -> Scored:
        """Compare a value with those before it, then remember it.

        What is no finite number is an anomaly without a score, and is not remembered.
        """
        if not isfinite(value):
            return Scored(None, None, is_anomaly=True)
        scored = self._zscore(value) if self._step.method == "zscore" else self._ewma(value)
        if not scored.is_anomaly:
            self.streak.clear()
            return scored
        self.streak.append(value)
        if len(self.streak) >= self._step.minimum:
            self._begin_anew()
        return scored

    def _begin_anew(self) -> None:
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
