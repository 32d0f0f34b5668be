"""The timing wheel against a sorted list."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.timers import Timer, TimingWheel


def nothing() -> None:
    """The callback of timers that are only counted."""


class Fired:
    """Records which timers fired, in order."""

    def __init__(self) -> None:
        self.names: list[int] = []

    def named(self, name: int) -> Callable[[], None]:
        return lambda: self.names.append(name)

    def run(self, callbacks: list[Callable[[], None]]) -> list[int]:
        start = len(self.names)
        for callback in callbacks:
            callback()
        return self.names[start:]


def test_timer_fires_at_its_deadline_and_not_before() -> None:
    for wait_ms in (1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 123_456, 20**6, 20**9 + 7):
        wheel = TimingWheel(1_000)
        timer = wheel.add(1_000 + wait_ms, nothing)
        assert wheel.advance(1_000 + wait_ms - 1) == []
        assert timer.is_pending()
        assert wheel.advance(1_000 + wait_ms) == [nothing]
        assert not timer.is_pending()
        assert wheel.next_opening_ms() is None


def test_deadline_that_has_passed_fires_at_the_next_advance() -> None:
    wheel = TimingWheel(1_000)
    wheel.add(5, nothing)
    wheel.add(1_000, nothing)
    assert wheel.advance(1_000) == [nothing, nothing]


def test_advance_to_an_earlier_time_changes_nothing() -> None:
    wheel = TimingWheel(1_000)
    wheel.add(1_010, nothing)
    assert wheel.advance(900) == []
    assert wheel.now_ms == 1_000
    assert wheel.advance(1_010) == [nothing]


def test_cancelled_timer_never_fires_and_may_be_cancelled_again() -> None:
    wheel = TimingWheel(0)
    timer = wheel.add(500, nothing)
    timer.cancel()
    timer.cancel()
    assert not timer.is_pending()
    assert wheel.next_opening_ms() is None
    assert wheel.advance(1_000) == []
    fired = wheel.add(1_001, nothing)
    assert wheel.advance(1_001) == [nothing]
    fired.cancel()


def test_timer_can_be_cancelled_after_it_moved_to_a_lower_level() -> None:
    wheel = TimingWheel(0)
    timer = wheel.add(50_001, nothing)
    assert wheel.advance(49_000) == []
    assert wheel.advance(50_000) == []
    timer.cancel()
    assert wheel.advance(60_000) == []


def test_callbacks_are_ordered_by_deadline_across_levels() -> None:
    fired = Fired()
    wheel = TimingWheel(0)
    deadlines = [385, 7, 399, 8_001, 21, 386, 170_000]
    for name, deadline in enumerate(deadlines):
        wheel.add(deadline, fired.named(name))
    wheel.advance(5)
    wheel.add(384, fired.named(7))
    assert fired.run(wheel.advance(200_000)) == [1, 4, 7, 0, 5, 2, 3, 6]


def test_advance_at_each_opening_fires_every_timer_at_its_deadline() -> None:
    generator = random.Random(7)
    wheel = TimingWheel(0)
    deadlines = sorted(generator.randrange(1, 3_000_000) for _ in range(500))
    met: list[int] = []
    for deadline in deadlines:
        wheel.add(deadline, lambda: met.append(wheel.now_ms))
    wakings = 0
    while (opening := wheel.next_opening_ms()) is not None:
        wakings += 1
        for callback in wheel.advance(opening):
            callback()
    assert met == deadlines
    # One waking for each level a timer comes through, at most.
    assert wakings <= 500 * 6


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(-50, 100)),
            st.tuples(st.just("add"), st.integers(0, 10_000_000)),
            st.tuples(st.just("advance"), st.integers(0, 50)),
            st.tuples(st.just("advance"), st.integers(0, 1_000_000)),
            st.tuples(st.just("cancel"), st.integers(0, 30)),
        ),
        max_size=80,
    )
)
def test_wheel_fires_the_same_timers_as_a_sorted_list(acts: list[tuple[str, int]]) -> None:
    wheel = TimingWheel(100)
    fired = Fired()
    waiting: list[tuple[int, int]] = []
    timers: dict[int, Timer] = {}
    for kind, number in acts:
        if kind == "add":
            name = len(timers)
            deadline_ms = wheel.now_ms + number
            timers[name] = wheel.add(deadline_ms, fired.named(name))
            waiting.append((deadline_ms, name))
        elif kind == "cancel":
            if number in timers:
                timers[number].cancel()
                waiting = [entry for entry in waiting if entry[1] != number]
        else:
            now_ms = wheel.now_ms + number
            due = {name: deadline for deadline, name in waiting if deadline <= now_ms}
            waiting = [entry for entry in waiting if entry[0] > now_ms]
            names = fired.run(wheel.advance(now_ms))
            assert sorted(names) == sorted(due)
            assert [due[name] for name in names] == sorted(due.values())
        opening_ms = wheel.next_opening_ms()
        if waiting:
            assert opening_ms is not None
            assert opening_ms <= max(wheel.now_ms, min(waiting)[0])
        else:
            assert opening_ms is None
        assert {name for name, timer in timers.items() if timer.is_pending()} == {
            name for _, name in waiting
        }


def test_many_timers_are_added_half_cancelled_and_fired_in_seconds() -> None:
    generator = random.Random(3)
    deadlines = [generator.randrange(1, 600_000) for _ in range(200_000)]
    wheel = TimingWheel(0)
    start = time.process_time()
    timers = [wheel.add(deadline, nothing) for deadline in deadlines]
    for timer in timers[::2]:
        timer.cancel()
    fired = sum(len(wheel.advance(now_ms)) for now_ms in range(0, 600_001, 100))
    assert fired == 100_000
    assert time.process_time() - start < 20
