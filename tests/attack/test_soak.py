"""When memory counts as level, and that churn is served."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from tests.attack.soak import GROWTH_MAX_BYTES, SHORT_LIVED, Sample, run, verdict
from tests.support.broker_process import odradek_broker

MIB = 1 << 20


def samples(
    grown_bytes_a_minute: float, *, noise_bytes: float = 0, minutes: int = 60
) -> list[Sample]:
    random = Random(1)
    return [
        Sample(
            at_s,
            int(
                40 * MIB
                + grown_bytes_a_minute * at_s / 60
                + random.uniform(-noise_bytes, noise_bytes)
            ),
            20,
            4,
        )
        for at_s in range(0, minutes * 60, 5)
    ]


@pytest.mark.parametrize("noise_bytes", [0, MIB, 4 * MIB])
def test_memory_that_scatters_without_a_trend_is_no_growth(noise_bytes: float) -> None:
    assert verdict(samples(0, noise_bytes=noise_bytes)) == []
    assert verdict(samples(GROWTH_MAX_BYTES / 60, noise_bytes=noise_bytes)) == []


def test_half_a_megabyte_a_minute_is_growth() -> None:
    assert verdict(samples(MIB / 2))
    assert verdict(samples(MIB / 2, noise_bytes=MIB))
    leaking = [Sample(sample.at_s, sample.rss_bytes, int(sample.at_s), 4) for sample in samples(0)]
    assert [text.split()[0] for text in verdict(leaking)] == ["descriptors"]


def test_churn_of_clients_is_served_without_an_error(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides=SHORT_LIVED) as broker:
        _, churn = run(broker, 2.0, rounds_per_s=1_000.0, trace=False)
        # Each round checks its responses; a slow machine has done but one.
        churn.run_round(int(time.time() * 1000))
        assert churn.rounds > 1
        assert broker.stop() == 0
