"""Work that gives way to clients again and again."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.group.slices import SLICE_MS, run_in_slices
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel


def test_work_gives_way_when_its_slice_is_over() -> None:
    clock = VirtualClock()
    wheel = TimingWheel(clock.monotonic_ms())
    done: list[int] = []

    def work() -> Iterator[None]:
        for number in range(2 * SLICE_MS + 1):
            done.append(number)
            clock.advance(1)
            yield

    run_in_slices(wheel, clock, work())
    per_turn = []
    while timers := wheel.advance(clock.monotonic_ms()):
        before = len(done)
        for callback in timers:
            callback()
        per_turn.append(len(done) - before)
    assert per_turn == [SLICE_MS, SLICE_MS, 1], "nothing before the first turn, and all in the end"
