"""Seeds of the simulator break no promise, each fault has an effect, planted bugs are found."""

from __future__ import annotations

import gc
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.sim.plan import make_plan
from tests.sim.planted import BUGS, RARE, SEEDS_MAX, seeds_until_found
from tests.sim.simulation import report, run_plan, run_seed, shortest

PROCESSOR_S: Final = 20
SEEDS_AT_LEAST: Final = 40
EFFECTS: Final = (
    "clock",
    "cut",
    "delay",
    "disk error",
    "disk full",
    "forced expiry",
    "kill",
    "orderly stop",
    "pause",
    "power cut",
    "power cut with torn writes",
    "session expiry",
    "session suspended",
    "slow disk",
    "truncation",
)
PLANTED_AT_ONCE: Final = 3

# Coroutines of processes that have ended are collected unfinished.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What a simulation leaves is collected within its test."""
    yield
    gc.collect()


def test_seeds_break_no_promise_and_every_fault_has_an_effect() -> None:
    """As many seeds as fit into the time; `make campaign-sim` runs others by the hour."""
    began_s = time.process_time()
    counts: Counter[str] = Counter()
    seed = acknowledged = events = 0
    while time.process_time() - began_s < PROCESSOR_S or seed < SEEDS_AT_LEAST:
        result = run_seed(seed)
        if result.failure is not None:
            plan = make_plan(seed)
            kept, result = shortest(plan)
            pytest.fail(report(result, plan, kept))
        counts.update(result.counts)
        acknowledged += result.acknowledged
        events += result.events
        seed += 1
        if seed % 10 == 0:
            gc.collect()
    took_s = time.process_time() - began_s
    print(f"{seed} seeds, {seed / took_s:.1f} a second, {events} events, {dict(counts)}")
    assert acknowledged > 20 * seed, "the histories make progress"
    assert not [name for name in EFFECTS if not counts[name]]


@pytest.mark.parametrize("seed", [3, 8])
def test_same_seed_repeats_the_same_history(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first == second


@pytest.mark.timeout(900)
def test_planted_bugs_are_found() -> None:
    """Three of them, others for each commit."""
    described = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(described, check=False, capture_output=True, text=True)
    common = sorted(set(BUGS) - set(RARE))
    chosen = random.Random(done.stdout).sample(common, PLANTED_AT_ONCE)
    counts = {name: seeds_until_found(name) for name in chosen}
    assert all(count is not None for count in counts.values()), (SEEDS_MAX, counts)


def test_shortest_history_of_a_failing_seed_has_fewer_faults_and_is_repeated_by_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    BUGS["fetch_without_the_last_epoch"](monkeypatch)
    seed = next(seed for seed in range(SEEDS_MAX) if run_seed(seed).failure is not None)
    plan = make_plan(seed)
    kept, result = shortest(plan)
    assert result.failure is not None
    assert len(kept) < len(plan.faults)
    numbers = ",".join(map(str, kept))
    assert f"-m tests.sim.simulation {seed} --faults '{numbers}'" in report(result, plan, kept)
    assert run_plan(plan.with_faults(kept)).failure == result.failure
