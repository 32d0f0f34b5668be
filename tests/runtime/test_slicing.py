"""Time slices: how long work runs, and when the loop runs in between."""

from __future__ import annotations

import asyncio

from odradek.runtime.slicing import TimeSlice
from odradek.runtime.testing.virtual_clock import VirtualClock


def test_slice_is_over_when_its_time_has_passed() -> None:
    clock = VirtualClock()
    time_slice = TimeSlice(clock, length_ms=3)

    clock.advance(2)
    assert not time_slice.is_over()
    clock.advance(1)
    assert time_slice.is_over()


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
