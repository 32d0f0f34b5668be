"""Scores, compared with numpy and pandas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.pipeline.spec.steps import Anomalies
from odradek.pipeline.transforms.scoring import Memory, mean_and_variance

VALUES = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=60)
NO_THRESHOLD = 1e308
"""No value is an anomaly, so all are stored unchanged."""


def step(**settings: Any) -> Anomalies:
    """A step with the settings that the scores need."""
    whole = {"kind": "anomalies", "from": "rows", "time": "at", "value": "x", **settings}
    return Anomalies.model_validate(whole)


@given(VALUES, st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_zscore_is_the_distance_from_the_mean_of_the_last_rows(
    values: list[float], history: int
) -> None:
    memory = Memory(step(method="zscore", history=history, minimum=2, threshold=NO_THRESHOLD))
    for number, value in enumerate(values):
        before = np.array(values[max(0, number - history) : number])
        scored = memory.judge(value)
        if number < 2:
            assert scored.score is None
            assert scored.expected == (before.mean() if number else None)
            continue
        assert scored.expected == pytest.approx(before.mean(), rel=1e-9, abs=1e-9)
        if before.std() > 1e-3:
            expected = (value - before.mean()) / before.std()
            assert scored.score == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert memory.history == values[-history:]


@given(VALUES, st.floats(0.01, 0.99))
@settings(max_examples=60, deadline=None)
def test_ewma_equals_that_of_pandas(values: list[float], alpha: float) -> None:
    memory = Memory(step(method="ewma", alpha=alpha, minimum=2, threshold=NO_THRESHOLD))
    series = pd.Series(values)
    means = series.ewm(alpha=alpha, adjust=False).mean()
    variances = series.ewm(alpha=alpha, adjust=False).var(bias=True)
    for number, value in enumerate(values):
        scored = memory.judge(value)
        mean, variance, count = memory.history
        assert mean == pytest.approx(means[number], rel=1e-6, abs=1e-6)
        assert variance == pytest.approx(variances[number], rel=1e-4, abs=1e-3)
        assert count == number + 1
        if number >= 2 and variances[number - 1] > 1.0:
            expected = (value - means[number - 1]) / math.sqrt(variances[number - 1])
            assert scored.score == pytest.approx(expected, rel=1e-3, abs=1e-3)


@given(VALUES, st.sampled_from(["zscore", "ewma"]), st.integers(0, 60), st.floats(0.5, 5))
@settings(max_examples=80, deadline=None)
def test_memory_restored_from_text_gives_the_same_scores(
    values: list[float], method: str, place: int, threshold: float
) -> None:
    settings_of_step = step(method=method, history=10, minimum=3, threshold=threshold)
    whole, parted = Memory(settings_of_step), Memory(settings_of_step)
    for number, value in enumerate(values):
        if number == place:
            parted = Memory.from_text(settings_of_step, parted.to_text())
        assert parted.judge(value) == whole.judge(value)


@given(VALUES)
@settings(max_examples=40, deadline=None)
def test_mean_and_variance_equal_those_of_numpy(values: list[float]) -> None:
    mean, variance = mean_and_variance(values)
    assert mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    assert variance == pytest.approx(np.var(values), rel=1e-6, abs=1e-6)
    assert mean_and_variance([]) == (0.0, 0.0)


@pytest.mark.parametrize("method", ["zscore", "ewma"])
def test_spike_does_not_hide_later_anomalies(method: str) -> None:
    memory = Memory(step(method=method, threshold=4.0))
    quiet = [10.0 + 0.1 * (number % 5) for number in range(50)]
    assert not any(memory.judge(value).is_anomaly for value in quiet)
    assert memory.judge(1e9).is_anomaly
    assert not memory.judge(10.2).is_anomaly
    assert memory.judge(15.0).is_anomaly


@pytest.mark.parametrize("method", ["zscore", "ewma"])
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_new_level_is_accepted_after_minimum_anomalies(method: str, spread: float) -> None:
    memory = Memory(step(method=method, threshold=4.0, minimum=8))
    for number in range(40):
        assert not memory.judge(10.0 + spread * (number % 3)).is_anomaly
    judged = [memory.judge(1_000.0 + spread * (number % 3)).is_anomaly for number in range(40)]
    assert judged[0]
    assert sum(judged) <= 8
    assert not any(judged[8:])
    assert memory.judge(10.0).is_anomaly


@pytest.mark.parametrize("method", ["zscore", "ewma"])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_value_that_is_not_finite_is_an_anomaly_and_is_not_stored(method: str, odd: float) -> None:
    memory = Memory(step(method=method))
    for number in range(20):
        memory.judge(float(number % 4))
    before = memory.to_text()
    scored = memory.judge(odd)
    assert (scored.score, scored.expected, scored.is_anomaly) == (None, None, True)
    assert memory.to_text() == before


def test_constant_values_are_not_anomalies() -> None:
    memory = Memory(step(method="zscore"))
    scored = [memory.judge(5.0) for _ in range(30)]
    assert [score.score for score in scored] == [None] * 10 + [0.0] * 20
    assert memory.judge(5.001).is_anomaly
