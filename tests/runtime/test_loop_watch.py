"""Slow callbacks and late timers are counted and named."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import monotonic_ns

import pytest

from odradek.broker.server.socket_server import apis_of
from odradek.runtime import loop_watch
from odradek.runtime.clock import SystemClock
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver

MS = 1_000_000


def keep_busy(for_ms: int) -> None:
    """Keep the loop busy."""
    end_ns = monotonic_ns() + for_ms * MS
    while monotonic_ns() < end_ns:
        pass


def test_longest_callback_is_kept_and_slow_ones_are_counted_and_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0
    monkeypatch.setattr(loop_watch, "monotonic_ns", lambda: now_ns)
    metrics = BrokerMetrics()
    watch = LoopWatch(metrics, lambda what: f"something with {what!r}")

    def run(duration_ms: int, what: object) -> None:
        nonlocal now_ns
        began_ns = now_ns
        now_ns += duration_ms * MS
        assert watch.ran(began_ns, what) == duration_ms * MS

    with caplog.at_level(logging.WARNING):
        for duration_ms in (5, 3, 100):
            run(duration_ms, "short")
        assert (metrics.loop_callback_max_ms, metrics.loop_slow_callbacks) == (100, 0)
        run(5_000, keep_busy)
        run(300, "left out")
        run(200, [1])
        assert (metrics.loop_callback_max_ms, metrics.loop_slow_callbacks) == (5_000, 3)
        now_ns += 10_000 * MS
        run(2_000, [1])
    assert caplog.messages == [
        "tests.runtime.test_loop_watch.keep_busy kept the event loop for 5000 ms",
        "something with [1] kept the event loop for 2000 ms; 2 more since the last line",
    ]


def test_timer_that_keeps_the_loop_is_named_and_the_next_one_is_late(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = BrokerMetrics()

    async def run() -> None:
        clock = SystemClock()
        driver = WheelDriver(
            asyncio.get_running_loop(), clock, TimingWheel(clock.monotonic_ms()), LoopWatch(metrics)
        )
        done = asyncio.Event()

        def slow_timer() -> None:
            # Not before: on a busy machine both would fire in the same turn.
            driver.after(40, done.set)
            keep_busy(150)

        driver.after(1, slow_timer)
        await done.wait()
        driver.close()

    asyncio.run(run())
    assert metrics.loop_slow_callbacks >= 1
    assert metrics.loop_callback_max_ms >= 150
    assert metrics.loop_lag_max_ms >= 100
    assert any("slow_timer kept the event loop for" in line for line in caplog.messages)


class Callback:
    """A callback without a name of its own."""

    def __call__(self) -> None:
        keep_busy(110)


@pytest.mark.parametrize(
    ("slow", "name"), [(partial(keep_busy, 110), "keep_busy"), (Callback(), "Callback")]
)
def test_slow_timer_of_any_kind_is_named_and_the_timers_after_it_fire(
    caplog: pytest.LogCaptureFixture, slow: Callback, name: str
) -> None:
    async def run() -> None:
        clock = SystemClock()
        watch = LoopWatch(BrokerMetrics(), apis_of)
        driver = WheelDriver(
            asyncio.get_running_loop(), clock, TimingWheel(clock.monotonic_ms()), watch
        )
        done = asyncio.Event()
        now_ms = clock.monotonic_ms()
        driver.add(now_ms + 1, slow)
        driver.add(now_ms + 1, done.set)
        async with asyncio.timeout(60):
            await done.wait()
        driver.close()

    asyncio.run(run())
    expected = f"tests.runtime.test_loop_watch.{name} kept the event loop for"
    assert any(line.startswith(expected) for line in caplog.messages)


def test_turn_without_a_whole_request_has_a_name(caplog: pytest.LogCaptureFixture) -> None:
    watch = LoopWatch(BrokerMetrics(), apis_of)
    frame = memoryview(b"\x00\x12\x00\x03")
    with caplog.at_level(logging.WARNING):
        watch.ran(monotonic_ns() - 200 * MS, [frame, frame])
        watch._logged_at_ns -= 10_000 * MS
        watch.ran(monotonic_ns() - 200 * MS, [])
    whole, part = caplog.messages
    assert whole.startswith("2 requests (API_VERSIONS) kept the event loop for")
    assert part.startswith("a turn of a connection without a whole request (a part of one, or its")
