"""The timing wheel on an event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from odradek.runtime.clock import SystemClock
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver


async def build() -> tuple[WheelDriver, SystemClock]:
    clock = SystemClock()
    wheel = TimingWheel(clock.monotonic_ms())
    return WheelDriver(asyncio.get_running_loop(), clock, wheel), clock


def test_timers_fire_in_the_order_of_their_deadlines_and_not_before() -> None:
    async def run() -> list[tuple[str, bool]]:
        driver, clock = await build()
        fired: list[tuple[str, bool]] = []
        done = asyncio.Event()
        start_ms = clock.monotonic_ms()

        def note(name: str, after_ms: int) -> None:
            fired.append((name, clock.monotonic_ms() >= start_ms + after_ms))
            if len(fired) == 3:
                done.set()

        driver.add(start_ms + 30, lambda: note("late", 30))
        driver.add(start_ms + 5, lambda: note("early", 5))
        cancelled = driver.add(start_ms + 6, lambda: note("never", 6))
        driver.add(start_ms + 12, lambda: note("middle", 12))
        cancelled.cancel()
        await asyncio.wait_for(done.wait(), 10)
        driver.close()
        return fired

    assert asyncio.run(run()) == [("early", True), ("middle", True), ("late", True)]


def test_failing_callback_does_not_stop_the_others() -> None:
    async def run() -> int:
        driver, clock = await build()
        done = asyncio.Event()
        turns: list[None] = []
        driver.after_each_turn(lambda: turns.append(None))

        def fail() -> None:
            raise ValueError("a timer of a test that fails on purpose")

        now_ms = clock.monotonic_ms()
        driver.add(now_ms + 2, fail)
        driver.add(now_ms + 4, done.set)
        await asyncio.wait_for(done.wait(), 10)
        driver.close()
        return len(turns)

    assert asyncio.run(run()) >= 1


def test_every_repeats_the_callback() -> None:
    async def run() -> int:
        driver, _ = await build()
        done = asyncio.Event()
        count = 0

        def tick() -> None:
            nonlocal count
            count += 1
            if count == 3:
                done.set()

        driver.every(2, tick)
        await asyncio.wait_for(done.wait(), 10)
        driver.close()
        return count

    assert asyncio.run(run()) >= 3


def test_timer_that_becomes_due_while_a_callback_adds_another_is_not_lost() -> None:
    async def run() -> list[str]:
        driver, clock = await build()
        fired: list[str] = []
        done = asyncio.Event()
        start_ms = clock.monotonic_ms()

        def slow() -> None:
            while clock.monotonic_ms() <= start_ms + 6:
                pass
            driver.add(start_ms + 40, done.set)

        driver.add(start_ms + 2, slow)
        driver.add(start_ms + 6, lambda: fired.append("due meanwhile"))
        await asyncio.wait_for(done.wait(), 10)
        driver.close()
        return fired

    assert asyncio.run(run()) == ["due meanwhile"]


def test_timers_fire_after_a_callback_of_after_each_turn_failed() -> None:
    async def run() -> int:
        driver, clock = await build()
        done = asyncio.Event()
        fired = 0

        def fail() -> None:
            raise RuntimeError("what the timers set off")

        def note() -> None:
            nonlocal fired
            fired += 1
            if fired == 2:
                done.set()

        driver.after_each_turn(fail)
        driver.add(clock.monotonic_ms() + 5, note)
        driver.add(clock.monotonic_ms() + 30, note)
        await asyncio.wait_for(done.wait(), 10)
        driver.close()
        return fired

    assert asyncio.run(run()) == 2


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_late_timer_fires_after_what_has_arrived_meanwhile(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    loop = new_loop()
    clock = SystemClock()
    driver = WheelDriver(loop, clock, TimingWheel(clock.monotonic_ms()))
    ours, peers = zip(*(socket.socketpair() for _ in range(2)), strict=True)
    order: list[str] = []

    def hold_the_loop() -> None:
        ours[0].recv(1)
        now_ms = clock.monotonic_ms()
        driver.add(now_ms + 5, lambda: order.append("timer"))
        driver.add(now_ms + 40, loop.stop)
        while clock.monotonic_ms() < now_ms + 20:
            pass
        peers[1].send(b"x")

    def read() -> None:
        ours[1].recv(1)
        order.append("arrived")

    loop.add_reader(ours[0], hold_the_loop)
    loop.add_reader(ours[1], read)
    peers[0].send(b"x")
    loop.run_forever()
    driver.close()
    for connection in ours:
        loop.remove_reader(connection)
    for connection in (*ours, *peers):
        connection.close()
    loop.close()
    assert order == ["arrived", "timer"]
