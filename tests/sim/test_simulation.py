"""Seeds of the simulator: histories break no promise, each fault has an effect, bugs are found."""

from __future__ import annotations

import gc
import os
import random
import secrets
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

import pytest

from odradek.broker.server import connection
from odradek.runtime import loop_watch
from tests.sim.find_planted import SEEDS_MAX, seeds_max
from tests.sim.plan import LONG_FROM, make_plan
from tests.sim.planted import BUGS
from tests.sim.planted_groups import GROUP_BUGS
from tests.sim.planted_transactions import TRANSACTION_BUGS
from tests.sim.seeds import Total, run_seeds, seeds_until_found
from tests.sim.simulation import report, run_plan, run_seed, shortest

SEEDS: Final = 40
SEEDS_OF_RARE_EFFECTS: Final = (61, 74, 77, 86, 87, 92, 100, 104, 339, 340)
"""An effect that the first seeds do not have, or in one of them only."""
LONG_SEEDS: Final = (1_003_487, 1_026_067, 1_062_107, 2_021_608, 2_022_578)
"""Histories that found faults of the broker; `make campaign-sim` runs all of those."""
PROCESSES: Final = 2
EFFECTS: Final = (
    "abort",
    "assignment",
    "client replaced",
    "cleaning",
    "cleaning without its checkpoint",
    "clock",
    "commit",
    "consumer assignment",
    "consumer member left",
    "controller deposed",
    "deposed within a change",
    "cut",
    "delay",
    "deletion",
    "disk error",
    "disk full",
    "disk full at the end",
    "end",
    "forced expiry",
    "kill",
    "killed copy",
    "lagging follower",
    "marker of a dead leader",
    "member death",
    "member left",
    "member replaced",
    "member stalled",
    "offset commit",
    "orderly stop",
    "outcome of a dead coordinator",
    "pause",
    "power cut",
    "power cut with torn writes",
    "reassignment",
    "session expiry",
    "session suspended",
    "slow disk",
    "stopped leader",
    "topic",
    "truncation",
    "two failovers",
    "unseen bounce",
)
PLANTED_AT_ONCE: Final = 2
OF_THE_MACHINE: Final = frozenset(
    (
        *(time.time, time.time_ns, time.monotonic, time.monotonic_ns),
        *(time.perf_counter, time.perf_counter_ns, time.process_time, time.process_time_ns),
        *(time.thread_time, time.thread_time_ns, os.urandom, random.random, random.getrandbits),
    )
)
"""What differs from run to run."""
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


@pytest.mark.timeout(1800)
def test_seeds_break_no_promise_and_every_fault_has_an_effect() -> None:
    """More seeds follow while an effect is missing: it may depend on what else the process did."""
    whole = Total()
    chosen = (*range(SEEDS), *SEEDS_OF_RARE_EFFECTS, *LONG_SEEDS)
    further = (range(first, first + SEEDS) for first in range(SEEDS, SEEDS_MAX, SEEDS))
    for seeds in (chosen, *further):
        for total in run_seeds(seeds, processes=PROCESSES):
            whole.add(total)
            for seed in total.failed:
                plan = make_plan(seed)
                kept, result = shortest(plan)
                pytest.fail(report(result, plan, kept))
        if all(whole.counts[name] for name in EFFECTS):
            break
    print(whole, dict(whole.counts))
    assert whole.acknowledged > 10 * whole.seeds, "the histories make progress"
    assert not [name for name in EFFECTS if not whole.counts[name]]


@pytest.mark.parametrize("seed", [3, LONG_FROM])
def test_same_seed_repeats_the_same_history(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first == second


@pytest.mark.parametrize("seed", [0, 7, 11, 17])
def test_simulation_reads_neither_clock_nor_randomness_of_the_machine(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of every kind, slices, and compaction, which is imported within a history."""
    imported_late = "odradek.broker.compaction.compaction"
    monkeypatch.delitem(sys.modules, imported_late, raising=False)
    read: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called in OF_THE_MACHINE:
            read.add((called.__name__, frame.f_code.co_qualname))

    former = sys.getprofile()
    gc.disable()  # libraries of tests measure collections
    sys.setprofile(note)
    try:
        run_seed(seed)
    finally:
        sys.setprofile(former)
        gc.enable()
    assert read == set()
    timed = vars(sys.modules.get(imported_late, loop_watch))
    assert timed["monotonic_ns"] is time.monotonic_ns


def test_clock_of_the_product_is_the_machines_again_after_a_simulation() -> None:
    run_seed(0)
    for module in loop_watch, connection:
        assert vars(module)["monotonic_ns"] is time.monotonic_ns


@pytest.mark.parametrize("name", sorted({*BUGS, *TRANSACTION_BUGS, *GROUP_BUGS}))
def test_bug_can_be_planted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each changes something that exists; `test_planted_bugs_are_found` draws some only."""
    {**BUGS, **TRANSACTION_BUGS, **GROUP_BUGS}[name](monkeypatch)


@pytest.mark.timeout(1800)
def test_planted_bugs_are_found() -> None:
    """Two of them and one of transactions or groups, others in each run."""
    drawn_by = secrets.randbelow(1 << 32)
    chosen = random.Random(drawn_by).sample(sorted(BUGS), PLANTED_AT_ONCE)
    of_coordinators = sorted({*TRANSACTION_BUGS, *GROUP_BUGS})
    chosen.append(random.Random(drawn_by).choice(of_coordinators))
    print(f"drawn by {drawn_by}: {chosen}")
    seeds = {name: seeds_until_found(name, seeds_max(name)) for name in chosen}
    assert all(seeds.values()), (drawn_by, seeds)


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
