"""New seeds for so many minutes; adds a line to the ledger.

    python -m tests.sim.campaign MINUTES

A line of `ledger.jsonl`: commit, first seed, seeds, events, faults that were made, how often they
had an effect, processor seconds, verdict (the seeds that have failed, or "none failed").
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.sim.plan import make_plan
from tests.sim.simulation import Result, report, run_seed, shortest
from tests.support.ledger import append, commit

LEDGER: Final = Path(__file__).with_name("ledger.jsonl")
SEEDS_AT_ONCE: Final = 20
PROCESSES: Final = 2
REPORTED_MAX: Final = 3
FIRST_SEED: Final = 1_000_000


def run_seeds(first: int) -> tuple[list[Result], float]:
    """The results of a few seeds and the processor time that they took."""
    began_s = time.process_time()
    results = [run_seed(seed) for seed in range(first, first + SEEDS_AT_ONCE)]
    gc.collect()
    for result in results:
        if result.failure is None:
            result.history.clear()
    return results, time.process_time() - began_s


def next_seed() -> int:
    """The first one that no line of the ledger has."""
    newest = FIRST_SEED
    if LEDGER.exists():
        for line in LEDGER.read_text().splitlines():
            entry = json.loads(line)
            newest = max(newest, entry["first_seed"] + entry["seeds"])
    return newest


def campaign(minutes: float) -> dict[str, Any]:
    """Run seeds in parallel; returns the line of the ledger."""
    first = seed = next_seed()
    end_s = time.monotonic() + minutes * 60
    counts: Counter[str] = Counter()
    events, faults, spent_s = 0, 0, 0.0
    failed: list[int] = []
    with ProcessPoolExecutor(PROCESSES) as pool:
        while time.monotonic() < end_s or seed == first:
            starts = range(seed, seed + PROCESSES * SEEDS_AT_ONCE, SEEDS_AT_ONCE)
            for results, took_s in pool.map(run_seeds, starts):
                spent_s += took_s
                for result in results:
                    events += result.events
                    faults += result.faults
                    counts.update(result.counts)
                    if result.failure is not None:
                        failed.append(result.seed)
                        print(f"seed {result.seed}: {result.failure}", flush=True)
            seed += PROCESSES * SEEDS_AT_ONCE
    return {
        "commit": commit(),
        "first_seed": first,
        "seeds": seed - first,
        "events": events,
        "faults": faults,
        "effects": dict(sorted(counts.items())),
        "processor_s": round(spent_s),
        "verdict": f"failed: {failed}" if failed else "none failed",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    entry = campaign(parser.parse_args().minutes)
    append(LEDGER, entry)
    if entry["verdict"] != "none failed":
        failed = json.loads(entry["verdict"].removeprefix("failed: "))
        for seed in failed[:REPORTED_MAX]:
            plan = make_plan(seed)
            kept, result = shortest(plan)
            print(report(result, plan, kept))
        sys.exit(1)


if __name__ == "__main__":
    main()
