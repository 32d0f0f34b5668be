"""The seeds that have failed, then new ones for so many minutes; adds a line to the ledger.

    python -m tests.sim.campaign MINUTES [--processes 2] [--dense]

A line of `ledger.jsonl`: commit, first seed, seeds, events, faults that were made, how often they
had an effect, processor seconds, verdict (the seeds that have failed, or "none failed").
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.sim.plan import DENSE_FROM, LONG_FROM, make_plan
from tests.sim.seeds import Total, run_seeds
from tests.sim.simulation import report, shortest
from tests.support.ledger import append, commit

LEDGER: Final = Path(__file__).with_name("ledger.jsonl")
PROCESSES: Final = 2
REPORTED_MAX: Final = 3
SEEDS_MAX: Final = 1_000_000
SEEDS_THAT_FAILED: Final = (
    1001596, 1001789, 1002340, 1002720, 1002865, 1002919, 1003181, 1003476, 1003487, 1003863,
    1004946, 1005678,
    1006921, 1006924, 1007031, 1007052, 1007459, 1008082, 1008170, 1008288, 1009194, 1011735,
    1008004, 1012746, 1013289, 1013806, 1014176,
    1018261, 1021111, 1026067, 1030005, 1035753, 1043564, 1043685, 1057515, 1062107,
    1070448,
    2015522, 2015547, 2021608, 2022578,
)  # fmt: skip
"""Campaigns found faults of the broker or of the simulator by them."""


def next_seed(*, is_dense: bool) -> int:
    """The first one that no line of the ledger has."""
    newest = DENSE_FROM if is_dense else LONG_FROM
    if LEDGER.exists():
        for line in LEDGER.read_text().splitlines():
            entry = json.loads(line)
            if (entry["first_seed"] >= DENSE_FROM) == is_dense:
                newest = max(newest, entry["first_seed"] + entry["seeds"])
    return newest


def campaign(minutes: float, processes: int, *, is_dense: bool) -> dict[str, Any]:
    """Run seeds in parallel; returns the line of the ledger."""
    first = next_seed(is_dense=is_dense)
    end_s = time.monotonic() + minutes * 60
    whole = Total()
    for total in run_seeds(range(first, first + SEEDS_MAX), processes=processes):
        whole.add(total)
        for seed, failure in total.failed.items():
            print(f"seed {seed}: {failure}", flush=True)
        if time.monotonic() > end_s:
            break
    return {
        "commit": commit(),
        "first_seed": first,
        "seeds": whole.seeds,
        "events": whole.events,
        "faults": whole.faults,
        "effects": dict(sorted(whole.counts.items())),
        "processor_s": round(whole.processor_s),
        "verdict": f"failed: {sorted(whole.failed)}" if whole.failed else "none failed",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--dense", action="store_true", help="about twice as many faults")
    arguments = parser.parse_args()
    again = run_seeds(SEEDS_THAT_FAILED, processes=arguments.processes)
    failed = [seed for total in again for seed in total.failed]
    entry = campaign(arguments.minutes, arguments.processes, is_dense=arguments.dense)
    append(LEDGER, entry)
    if entry["verdict"] != "none failed":
        failed += json.loads(entry["verdict"].removeprefix("failed: "))
    for seed in failed[:REPORTED_MAX]:
        plan = make_plan(seed)
        kept, result = shortest(plan)
        print(report(result, plan, kept))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
