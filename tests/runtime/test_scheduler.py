"""Who gets the next slice of the loop, and how long work runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic_ns
from typing import Final

import pytest

from odradek.runtime.loop_watch import SLOW_NS, LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.scheduler import ROUND_NS, SLICE_NS, Scheduler, scheduler_of
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.work import in_units

SLICE_MS: Final = SLICE_NS // 1_000_000
ROUND_MS: Final = ROUND_NS // 1_000_000


def slices(clock: VirtualClock, deferred: list[Callable[[], None]]) -> Scheduler:
    return scheduler_of(clock, deferred.append, "tests")


def steps_of_one_ms(clock: VirtualClock, count: int, done: list[int]) -> Iterator[None]:
    for number in range(count):
        clock.advance(1)
        done.append(number)
        yield


def test_steps_within_one_slice_are_not_deferred() -> None:
    clock, done = VirtualClock(), list[int]()
    deferred: list[Callable[[], None]] = []

    slices(clock, deferred).run(in_units(steps_of_one_ms(clock, SLICE_MS - 1, done)))

    assert done == list(range(SLICE_MS - 1))
    assert deferred == []


def test_steps_beyond_one_slice_are_deferred_slice_by_slice() -> None:
    clock, done = VirtualClock(), list[int]()
    deferred: list[Callable[[], None]] = []
    lengths = []

    slices(clock, deferred).run(in_units(steps_of_one_ms(clock, 5, done)))
    while deferred:
        lengths.append(len(done))
        deferred.pop()()

    assert lengths == [2, 4]
    assert done == [0, 1, 2, 3, 4]


def test_slice_that_keeps_the_loop_is_logged_by_the_name_of_its_scheduler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    deferred: list[Callable[[], None]] = []

    slices(clock, deferred).run(in_units(steps_of_one_ms(clock, 5, [])))
    LoopWatch(BrokerMetrics()).ran(monotonic_ns() - 2 * SLOW_NS, deferred.pop())

    assert "Scheduler(tests) kept the event loop" in caplog.text


def test_error_of_a_deferred_step_reaches_the_one_that_runs_it() -> None:
    clock = VirtualClock()
    deferred: list[Callable[[], None]] = []

    def failing() -> Iterator[None]:
        clock.advance(SLICE_MS)
        yield
        raise OSError("the disk has failed")

    slices(clock, deferred).run(in_units(failing()))
    with pytest.raises(OSError, match="the disk has failed"):
        deferred.pop()()
    assert deferred == []


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_turn_takes_no_longer_whatever_the_number_of_works(count: int) -> None:
    clock = VirtualClock()
    deferred: list[Callable[[], None]] = []
    shared = slices(clock, deferred)
    done: list[list[int]] = [[] for _ in range(count)]
    for steps in done:
        shared.run_later(partial(in_units, steps_of_one_ms(clock, 2 * SLICE_MS, steps)))
    turns = 0
    while deferred:
        (turn,) = deferred
        deferred.clear()
        began_ms = clock.monotonic_ms()
        turn()
        turns += 1
        assert clock.monotonic_ms() - began_ms <= ROUND_MS
    assert all(len(steps) == 2 * SLICE_MS for steps in done)
    assert turns >= count * 2 * SLICE_MS // ROUND_MS


def test_short_work_does_not_wait_for_the_end_of_long_ones() -> None:
    clock = VirtualClock()
    deferred: list[Callable[[], None]] = []
    shared = slices(clock, deferred)
    long: list[list[int]] = [[] for _ in range(3)]
    for steps in long:
        shared.run_later(partial(in_units, steps_of_one_ms(clock, 100, steps)))
    deferred.pop()()
    short: list[int] = []
    shared.run_later(partial(in_units, steps_of_one_ms(clock, 1, short)))
    for _ in long:
        deferred.pop()()
    assert short == [0]
    assert sum(map(len, long)) < 20


def test_work_that_fails_does_not_keep_the_others_from_their_slices() -> None:
    def failing() -> Iterator[None]:
        yield
        raise ValueError("a step")

    clock, done = VirtualClock(), list[int]()
    deferred: list[Callable[[], None]] = []
    shared = slices(clock, deferred)
    shared.run_later(partial(in_units, failing()))
    shared.run_later(partial(in_units, steps_of_one_ms(clock, 1, done)))
    with pytest.raises(ValueError, match="a step"):
        deferred.pop()()
    deferred.pop()()
    assert done == [0]
    assert deferred == []
    shared.run_later(partial(in_units, steps_of_one_ms(clock, 1, done)))
    deferred.pop()()
    assert done == [0, 0]
