"""What timers wait for after a stall: the scheduler's queues, on a clock that work moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.scheduler import MARK_SLICES, ROUND_NS, SLICE_NS, Scheduler
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import ROUNDS_MAX, STALL_MS, WheelDriver

ENDLESS = 1 << 30
FIRST_SLICES_IN_A_ROUND = 3
"""At most, of works that take theirs whole while many wait and are known."""
NEW_LOOPS = [uvloop.new_event_loop, asyncio.new_event_loop]


class MovedClock:
    """Time that passes while work is done."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ms(self) -> int:
        return self.ns // 1_000_000

    def now_ms(self) -> int:
        return self.monotonic_ms()

    def pass_ms(self, by_ms: int) -> None:
        self.ns += by_ms * 1_000_000


class Peer:
    """A connection with requests, of which each slice handles one, however long it takes."""

    def __init__(
        self, scheduler: Scheduler, clock: MovedClock, requests: int, cost_ns: int
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self.requests = requests
        self._cost_ns = cost_ns
        self.handled = 0

    def run_slice(self, deadline_ns: int) -> bool:
        self.handled += 1
        self._clock.ns += self._cost_ns
        if self.handled < self.requests:
            self._scheduler.add(self)
        return False

    def abandon(self, error: Exception) -> None:
        raise AssertionError("no slice fails") from error


peer_values = st.tuples(
    st.integers(0, 2),
    st.one_of(st.integers(1, MARK_SLICES), st.just(ENDLESS)),
    st.integers(0, 2 * SLICE_NS),
)
"""(its queue, its requests, the time that each takes)"""


@given(st.lists(peer_values, max_size=30), st.lists(peer_values, max_size=5))
def test_mark_is_passed_when_all_before_it_have_had_their_slices_whatever_comes_later(
    before: list[tuple[int, int, int]], later: list[tuple[int, int, int]]
) -> None:
    clock = MovedClock()
    rounds: list[Callable[[], None]] = []
    scheduler = Scheduler(rounds.append, "tests", now_ns=clock.now_ns)

    def made(values: list[tuple[int, int, int]]) -> list[tuple[int, Peer]]:
        return [
            (kind, Peer(scheduler, clock, requests, cost_ns)) for kind, requests, cost_ns in values
        ]

    def queue(peers: list[tuple[int, Peer]]) -> None:
        for kind, peer in peers:
            if kind == 2:
                scheduler.add(peer)
            else:
                scheduler.add_first(peer, is_known=kind == 1)

    first, others = made(before), made(later)
    queue(first)
    mark = scheduler.mark()
    count = 0
    while not mark.is_passed:
        queue(others)
        rounds.pop(0)()
        count += 1
    assert all(peer.handled >= min(peer.requests, MARK_SLICES) for _, peer in first)
    # Each round serves one of each queue at least.
    assert count <= (MARK_SLICES + 2) * (len(first) + len(others) + 1)


class Stall:
    """A driver whose timer becomes due while the loop does not run, and peers that wait then."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self.loop = new_loop()
        self.clock = MovedClock()
        self.scheduler = Scheduler(self.loop.call_soon, "tests", now_ns=self.clock.now_ns)
        self.driver = WheelDriver(self.loop, self.clock, TimingWheel(0))
        self.driver.wait_for(self.scheduler)

    def run(self, stall_ms: int) -> None:
        """Until the timer fires."""
        self.driver.add(0, self.loop.stop)
        self.clock.pass_ms(stall_ms)
        self.loop.run_forever()
        self.driver.close()
        self.loop.close()

    def peers(self, count: int, requests: int) -> list[Peer]:
        """Connections that were put off."""
        peers = [Peer(self.scheduler, self.clock, requests, SLICE_NS) for _ in range(count)]
        for peer in peers:
            self.scheduler.add_first(peer, is_known=True)
        return peers


@pytest.mark.parametrize("new_loop", NEW_LOOPS)
def test_timer_fires_after_a_stall_when_all_that_were_put_off_have_been_read(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    stall = Stall(new_loop)
    peers = stall.peers(4, MARK_SLICES)
    endless = stall.peers(1, ENDLESS)
    stall.run(10_000)
    assert {peer.handled for peer in peers} == {MARK_SLICES}
    assert endless[0].handled > MARK_SLICES


@pytest.mark.parametrize("new_loop", NEW_LOOPS)
@pytest.mark.parametrize(
    ("stall_ms", "rounds"), [(STALL_MS, STALL_MS * 1_000_000 // ROUND_NS), (100_000, ROUNDS_MAX)]
)
def test_timer_fires_after_a_stall_when_reading_takes_longer_than_that_or_too_long(
    stall_ms: int, rounds: int, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    stall = Stall(new_loop)
    peers = stall.peers(2 * FIRST_SLICES_IN_A_ROUND * ROUNDS_MAX, ENDLESS)
    stall.run(stall_ms)
    handled = sum(peer.handled > 0 for peer in peers)
    assert rounds <= handled <= (FIRST_SLICES_IN_A_ROUND + 1) * rounds


@pytest.mark.parametrize("new_loop", NEW_LOOPS)
def test_timer_that_a_busy_loop_fires_late_does_not_wait_for_slices(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    stall = Stall(new_loop)
    peers = stall.peers(300, 1)
    stall.run(STALL_MS // 2)
    assert not all(peer.handled for peer in peers)
