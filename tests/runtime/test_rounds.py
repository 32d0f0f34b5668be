"""Who gets the next slice, on a loop whose iterations the test runs."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns

import pytest

from odradek.runtime.scheduler import ROUND_NS, Scheduler

OTHERS = 200


class Iterations:
    """The part of an event loop that a scheduler uses."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def run(self) -> None:
        """One iteration."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Work:
    """Takes every slice whole, or no time at all."""

    def __init__(self, *, is_long: bool) -> None:
        self._is_long = is_long
        self.slices = 0

    def run_slice(self, deadline_ns: int) -> bool:
        self.slices += 1
        while self._is_long and monotonic_ns() < deadline_ns:
            pass
        return self._is_long

    def abandon(self, error: Exception) -> None:
        raise AssertionError("no slice fails") from error


@pytest.fixture
def iterations() -> Iterations:
    return Iterations()


@pytest.fixture
def scheduler(iterations: Iterations) -> Scheduler:
    return Scheduler(iterations.call_soon, "tests")


def test_known_connection_does_not_wait_behind_many_unknown_ones(
    iterations: Iterations, scheduler: Scheduler
) -> None:
    others = [Work(is_long=True) for _ in range(OTHERS)]
    for other in others:
        scheduler.add_first(other)
    iterations.run()
    known_work, unknown = Work(is_long=False), Work(is_long=False)
    scheduler.add_first(unknown)
    scheduler.add_first(known_work, is_known=True)
    iterations.run()
    assert (known_work.slices, unknown.slices) == (1, 0)
    while not unknown.slices:
        iterations.run()
    assert all(other.slices for other in others), "in the order of arrival"


def test_each_kind_gets_a_slice_of_every_round(
    iterations: Iterations, scheduler: Scheduler
) -> None:
    known_works = [Work(is_long=True) for _ in range(OTHERS)]
    first = [Work(is_long=True) for _ in range(OTHERS)]
    waiting = Work(is_long=True)
    scheduler.add(waiting)
    for number in range(OTHERS):
        scheduler.add_first(known_works[number], is_known=True)
        scheduler.add_first(first[number])
    for turn in range(1, 4):
        began_ns = monotonic_ns()
        iterations.run()
        took_ns = monotonic_ns() - began_ns
        assert sum(work.slices for work in known_works) >= turn
        assert sum(work.slices for work in first) >= turn
        assert waiting.slices >= 1
        assert took_ns >= ROUND_NS * 3 // 4
