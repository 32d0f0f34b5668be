"""How fast this machine runs Python right now, for bounds on processor time.

Processor time leaves out what other processes use, but not what they do to caches and to the other
thread of a core: a loaded machine takes up to three times as long for the same work.
"""

from __future__ import annotations

from statistics import median
from time import thread_time_ns
from typing import Final

RUNS: Final = 9
REFERENCE_NS: Final = 1_350_000
"""Of `_work` on an idle machine of the kind that the bounds were measured on."""


def slowness() -> float:
    """Factor by which Python runs slower than on the idle reference machine, at least 1; 30 ms."""
    return max(1.0, median(_measured_ns() for _ in range(RUNS)) / REFERENCE_NS)


def _measured_ns() -> int:
    began_ns = thread_time_ns()
    _work()
    return thread_time_ns() - began_ns


def _work() -> None:
    """Names, numbers and lookups over more memory than the fast caches hold."""
    names = [f"name-{number}" for number in range(6_000)]
    numbers = dict(zip(names, range(6_000), strict=True))
    assert sum(numbers[name] for name in reversed(names)) == 17_997_000
