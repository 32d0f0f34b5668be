"""Time that is advanced in steps, compared with a sorted list of timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from odradek.testing.node.control.advance import EXACT_CALLS, PERIODS, Advance
from odradek.testing.node.control.advanced_wheel import AdvancedClock, AdvancedWheel, timer_name

DAY_MS = 24 * 3_600_000
WAITS = st.lists(st.integers(0, 3_000), max_size=4)
CHAINS = st.lists(WAITS, max_size=8)
"""Each is a timer, the timer that it adds when it fires, and so on, by their waits."""


def pass_time(wheel: TimingWheel, advance: Advance) -> None:
    """All steps of an advance."""
    while advance.step(wheel.next_opening_ms()):
        for callback in wheel.advance(advance.now_ms):
            callback()


def begin_chain(
    wheel: TimingWheel, advance: Advance, waits: list[int], note: Callable[[], None]
) -> None:
    """Add the first timer, which adds the next one."""
    if waits:

        def fire() -> None:
            note()
            begin_chain(wheel, advance, waits[1:], note)

        wheel.add(advance.deadline_ms(advance.now_ms + waits[0]), fire)


@given(CHAINS, st.integers(0, 9_000))
def test_timers_and_what_they_add_fire_in_order_at_their_deadlines(
    chains: list[list[int]], span_ms: int
) -> None:
    wheel, advance = TimingWheel(1_000), Advance(1_000, 1_000 + span_ms)
    fired: list[tuple[int, int]] = []

    def note(number: int) -> None:
        fired.append((advance.now_ms, number))

    for number, waits in enumerate(chains):
        begin_chain(wheel, advance, waits, partial(note, number))
    pass_time(wheel, advance)
    expected = []
    for number, waits in enumerate(chains):
        due_ms = 1_000
        for wait_ms in waits:
            due_ms += wait_ms
            if due_ms <= 1_000 + span_ms:
                expected.append((due_ms, number))
    assert sorted(fired) == sorted(expected)
    assert [due_ms for due_ms, _ in fired] == sorted(due_ms for due_ms, _ in fired)
    assert advance.now_ms == 1_000 + span_ms


@given(st.lists(st.integers(1, DAY_MS), min_size=1, max_size=4), st.integers(0, 400 * DAY_MS))
def test_periodic_timers_fire_exactly_or_on_the_grid_and_at_the_end(
    intervals: list[int], span_ms: int
) -> None:
    wheel, advance = TimingWheel(0), Advance(0, span_ms)
    fired: dict[int, list[int]] = {number: [] for number in range(len(intervals))}

    def begin(number: int, interval_ms: int) -> None:
        def fire() -> None:
            fired[number].append(advance.now_ms)
            wheel.add(advance.next_call_ms(interval_ms), fire)

        wheel.add(interval_ms, fire)

    for number, interval_ms in enumerate(intervals):
        begin(number, interval_ms)
    pass_time(wheel, advance)
    for number, interval_ms in enumerate(intervals):
        if interval_ms >= advance.grid_ms:
            assert fired[number] == list(range(interval_ms, span_ms + 1, interval_ms))
        elif interval_ms <= span_ms:
            assert len(fired[number]) <= PERIODS + 1
            assert fired[number][0] == interval_ms
            assert fired[number][-1] == span_ms
            assert fired[number] == sorted(set(fired[number]))


@pytest.mark.parametrize("wait_ms", [0, 1, 500])
def test_timer_that_always_adds_another_one_does_not_keep_time_from_passing(wait_ms: int) -> None:
    wheel, advance = TimingWheel(0), Advance(0, 8 * DAY_MS)

    def fire() -> None:
        advance.note("retry")
        wheel.add(advance.deadline_ms(advance.now_ms + wait_ms), fire)

    wheel.add(0, fire)
    pass_time(wheel, advance)
    assert advance.now_ms == 8 * DAY_MS
    assert EXACT_CALLS <= advance.fired["retry"] <= EXACT_CALLS + PERIODS + 1


def test_wheel_of_a_broker_is_advanced_with_a_clock_that_stands_still() -> None:
    host = VirtualClock(5_000)
    seen: list[tuple[str, int, int]] = []

    async def run() -> None:
        clock = AdvancedClock(host)
        loop = asyncio.get_running_loop()
        wheel = AdvancedWheel(loop, clock, LoopWatch(BrokerMetrics()))

        def late() -> None:
            seen.append(("late", clock.now_ms(), clock.monotonic_ms()))

        def early() -> None:
            seen.append(("early", clock.now_ms(), clock.monotonic_ms()))
            wheel.after(700, late)

        wheel.after(1_000, early)
        wheel.every(3_600_000, periodic)
        passed: list[int] = []

        async def settle(passed_ms: int) -> None:
            host.advance(3)  # Real time passes, but not for the broker.
            passed.append(passed_ms)

        done = await wheel.advance(2 * 3_600_000, None, settle, float("inf"))
        assert sum(passed) == 2 * 3_600_000
        assert done.fired == {timer_name(periodic): 4}  # All are functions of this test.
        assert clock.now_ms() == clock.monotonic_ms() == 5_000 + 2 * 3_600_000
        host.advance(10)
        assert clock.monotonic_ms() == 5_010 + 2 * 3_600_000
        wheel.close()

    def periodic() -> None:
        raise ValueError("logged")

    asyncio.run(run())
    assert seen == [("early", 6_000, 6_000), ("late", 6_700, 6_700)]
