"""Time slices: how long work runs, and when the loop runs in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic_ns

import pytest

from odradek.runtime.loop_watch import SLOW_NS, LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.slicing import SLICE_MS, SharedSlices, TimeSlice, run_in_slices
from odradek.runtime.testing.virtual_clock import VirtualClock


def steps_of_one_ms(clock: VirtualClock, count: int, done: list[int]) -> Iterator[None]:
    for number in range(count):
        clock.advance(1)
        done.append(number)
        yield


def test_slice_is_over_when_its_time_has_passed() -> None:
    clock = VirtualClock()
    time_slice = TimeSlice(clock, length_ms=3)

    clock.advance(2)
    assert not time_slice.is_over()
    clock.advance(1)
    assert time_slice.is_over()


def test_steps_within_one_slice_are_not_deferred() -> None:
    clock, done = VirtualClock(), list[int]()
    deferred: list[Callable[[], None]] = []

    run_in_slices(steps_of_one_ms(clock, SLICE_MS - 1, done), clock, deferred.append)

    assert done == list(range(SLICE_MS - 1))
    assert deferred == []


def test_steps_beyond_one_slice_are_deferred_slice_by_slice() -> None:
    clock, done = VirtualClock(), list[int]()
    deferred: list[Callable[[], None]] = []
    lengths = []

    run_in_slices(steps_of_one_ms(clock, 5, done), clock, deferred.append)
    while deferred:
        lengths.append(len(done))
        deferred.pop()()

    assert lengths == [2, 4]
    assert done == [0, 1, 2, 3, 4]


def test_slice_that_keeps_the_loop_is_logged_by_the_name_of_its_steps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    deferred: list[Callable[[], None]] = []

    run_in_slices(steps_of_one_ms(clock, 5, []), clock, deferred.append)
    LoopWatch(BrokerMetrics()).ran(monotonic_ns() - 2 * SLOW_NS, deferred.pop())

    assert "run_in_slices(steps_of_one_ms) kept the event loop" in caplog.text


def test_error_of_a_deferred_step_reaches_the_one_that_runs_it() -> None:
    clock = VirtualClock()
    deferred: list[Callable[[], None]] = []

    def failing() -> Iterator[None]:
        clock.advance(SLICE_MS)
        yield
        raise OSError("the disk has failed")

    run_in_slices(failing(), clock, deferred.append)
    with pytest.raises(OSError, match="the disk has failed"):
        deferred.pop()()
    assert deferred == []


def test_pause_lets_the_loop_run_only_at_the_end_of_a_slice() -> None:
    clock = VirtualClock()
    served: list[int] = []

    async def work() -> list[int]:
        loop = asyncio.get_running_loop()
        time_slice = TimeSlice(clock)
        seen = []
        for number in range(4):
            loop.call_soon(served.append, number)
            clock.advance(1)
            await time_slice.pause_if_over()
            seen.append(len(served))
        return seen

    assert asyncio.run(work()) == [0, 2, 2, 4]


def test_one_of_several_works_has_a_slice_in_each_turn() -> None:
    clock = VirtualClock()
    deferred: list[Callable[[], None]] = []
    shared = SharedSlices(clock, deferred.append)
    done: list[list[int]] = [[], [], []]
    for one in done:
        shared.add(steps_of_one_ms(clock, 2 * SLICE_MS, one))

    seen = []
    while deferred:
        (turn,) = deferred
        deferred.clear()
        turn()
        seen.append([len(one) for one in done])

    half, whole = SLICE_MS, 2 * SLICE_MS
    assert seen[:4] == [[half, 0, 0], [half, half, 0], [half] * 3, [whole, half, half]]
    assert seen[-1] == [whole] * 3


def test_work_that_fails_does_not_keep_the_others_from_their_slices() -> None:
    def failing() -> Iterator[None]:
        yield
        raise ValueError("a step")

    clock, done = VirtualClock(), list[int]()
    deferred: list[Callable[[], None]] = []
    shared = SharedSlices(clock, deferred.append)
    shared.add(failing())
    shared.add(steps_of_one_ms(clock, 1, done))
    with pytest.raises(ValueError, match="a step"):
        deferred.pop()()
    deferred.pop()()
    assert done == [0]
    assert deferred == []
    shared.add(steps_of_one_ms(clock, 1, done))
    deferred.pop()()
    assert done == [0, 0]
