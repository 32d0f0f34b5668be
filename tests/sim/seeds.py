"""Many seeds, a few of them in one process after another.

What simulations leave is never collected: their process ends instead.  Processes are forked when
all code has been imported and every codec has been made.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from select import select
from typing import Final

import pytest

from odradek.broker import handlers
from tests.sim.plan import make_plan
from tests.sim.planted import BUGS
from tests.sim.planted_groups import GROUP_BUGS
from tests.sim.planted_transactions import TRANSACTION_BUGS
from tests.sim.simulation import Result, run_plan, run_seed

SEEDS_OF_A_PROCESS: Final = 50
WARM_UP_SEEDS: Final = (0, 4, 11, 17)
"""With transactional clients and groups among them."""


@dataclass
class Total:
    """What seeds have come to together."""

    seeds: int = 0
    events: int = 0
    faults: int = 0
    acknowledged: int = 0
    processor_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, other: Total) -> None:
        """Count those of others."""
        self.seeds += other.seeds
        self.events += other.events
        self.faults += other.faults
        self.acknowledged += other.acknowledged
        self.processor_s += other.processor_s
        self.counts.update(other.counts)
        self.failed.update(other.failed)

    def add_result(self, result: Result) -> None:
        """Count one seed."""
        self.seeds += 1
        self.events += result.events
        self.faults += result.faults
        self.acknowledged += result.acknowledged
        self.counts.update(result.counts)
        if result.failure is not None:
            self.failed[result.seed] = result.failure

    def __str__(self) -> str:
        each_s = f"{self.seeds / self.processor_s:.1f} seeds, {self.events / self.processor_s:.0f}"
        each_s += f" events and {self.faults / self.processor_s:.1f} faults"
        return f"{self.seeds} seeds, {self.events} events, {self.faults} faults: {each_s} a second"


@cache
def prepare() -> None:
    """Import what is imported at the first use, make the codecs."""
    for path in sorted(Path(handlers.__path__[0]).glob("*.py")):
        import_module(f"{handlers.__name__}.{path.stem}")
    for seed in WARM_UP_SEEDS:
        run_seed(seed)


def _run(seeds: Sequence[int], bug: str | None) -> Total:
    gc.disable()
    logging.raiseExceptions = False
    total = Total()
    began_s = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        if bug is not None:
            (BUGS | TRANSACTION_BUGS | GROUP_BUGS)[bug](patch)
        for seed in seeds:
            plan = make_plan(seed)
            if bug in TRANSACTION_BUGS and not plan.transactional_clients:
                continue
            if bug in GROUP_BUGS and not plan.group_members:
                continue
            try:
                total.add_result(run_plan(plan))
            except Exception as error:  # noqa: BLE001 - the other seeds are run all the same
                traceback.print_exc()
                total.seeds += 1
                total.failed[seed] = f"the simulator itself failed: {error!r}"
            if bug is not None and total.failed:
                break
    total.processor_s = time.process_time() - began_s
    return total


def _start(seeds: Sequence[int], bug: str | None) -> tuple[int, int]:
    """Fork a process for seeds; returns its id and the descriptor from which its total is read."""
    readable, writable = os.pipe()
    process_id = os.fork()
    if process_id:
        os.close(writable)
        return process_id, readable
    status = 1
    try:
        with open(writable, "wb") as result:
            pickle.dump(_run(seeds, bug), result)
        status = 0
    except BaseException:  # noqa: BLE001 - nothing of it may go on in the fork
        traceback.print_exc()
    finally:
        os._exit(status)


def _finish(process_id: int, readable: int) -> Total:
    with open(readable, "rb") as result:
        data = result.read()
    _, status = os.waitpid(process_id, 0)
    assert status == 0, "a process of the simulator has failed"
    total: Total = pickle.loads(data)
    return total


def run_seeds(
    seeds: Sequence[int], *, bug: str | None = None, processes: int = 1
) -> Iterator[Total]:
    """Run seeds, with a bug if one is named: then each process ends with the first failure.

    No process waits for another one; those that run when the caller stops are killed.

    returns  one total for each process, in the order of the seeds
    """
    prepare()
    starts = iter(range(0, len(seeds), SEEDS_OF_A_PROCESS))
    running: dict[int, tuple[int, int]] = {}
    """Where a total is read -> position of the first seed, process id."""
    finished: dict[int, Total] = {}
    expected = 0
    try:
        while expected < len(seeds):
            for start in islice(starts, processes - len(running)):
                process_id, readable = _start(seeds[start : start + SEEDS_OF_A_PROCESS], bug)
                running[readable] = start, process_id
            for readable in select(list(running), [], [])[0]:
                start, process_id = running.pop(readable)
                finished[start] = _finish(process_id, readable)
            while expected in finished:
                yield finished.pop(expected)
                expected += SEEDS_OF_A_PROCESS
    finally:
        for readable, (_, process_id) in running.items():
            os.close(readable)
            os.kill(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)


def seeds_until_found(bug: str, seeds: int) -> tuple[int, str] | None:
    """How many seeds it takes to find a bug, and what it breaks; None when it is not found."""
    for total in run_seeds(range(seeds), bug=bug):
        for seed, failure in total.failed.items():
            return seed + 1, failure
    return None
