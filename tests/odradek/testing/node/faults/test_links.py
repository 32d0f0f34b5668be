"""Links without sockets: what passes, when, and in which order."""

from __future__ import annotations

import asyncio
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from odradek.testing.node.faults.links import HELD_BYTES_MAX, Direction, Pipe

CUT: Final = "cut"
HEAL: Final = "heal"


class ManualClock:
    """Milliseconds that the test counts."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Link:
    """One direction, with time that the test lets pass."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = asyncio.new_event_loop()
        wheel = WheelDriver(self.loop, self.clock, TimingWheel(self.clock.ms))
        self.direction = Direction()
        self.delivered: list[tuple[int, bytes | None]] = []
        self.held: list[bool] = []
        self.pipe = Pipe(
            self.direction,
            wheel,
            self.clock,
            lambda content: self.delivered.append((self.clock.ms, content)),
            self.held.append,
        )

    def pass_time(self, by_ms: int) -> None:
        for _ in range(by_ms):
            self.clock.ms += 1
            self.pipe.pump()

    def close(self) -> None:
        self.loop.close()


steps = st.lists(
    st.integers(1, 40) | st.sampled_from([CUT, HEAL]) | st.tuples(st.integers(0, 30)), max_size=30
)
"""Milliseconds pass, a cut, its end, or a delay from now on; something is sent after each."""


@given(steps=steps)
def test_everything_arrives_in_order_and_not_before_its_delay(
    steps: list[int | str | tuple[int]],
) -> None:
    link = Link()
    due: list[tuple[int, bytes]] = []
    cuts: list[tuple[int, int]] = []
    cut_at_ms: int | None = None
    delay_ms = 0
    for number, step in enumerate(steps):
        if isinstance(step, int):
            link.pass_time(step)
        elif step == CUT:
            cut_at_ms = link.clock.ms if cut_at_ms is None else cut_at_ms
            link.direction.set(is_cut=True, delay_ms=delay_ms)
        elif step == HEAL:
            if cut_at_ms is not None:
                cuts.append((cut_at_ms, link.clock.ms))
                cut_at_ms = None
            link.direction.set(is_cut=False, delay_ms=delay_ms)
        elif not isinstance(step, str):
            delay_ms = step[0]
            link.direction.set(is_cut=cut_at_ms is not None, delay_ms=delay_ms)
        content = str(number).encode()
        due.append((link.clock.ms + delay_ms, content))
        link.pipe.send(content)
    if cut_at_ms is not None:
        cuts.append((cut_at_ms, link.clock.ms))
    link.direction.set(is_cut=False, delay_ms=0)
    link.pass_time(100)
    link.pipe.send(None)
    link.close()
    assert [content for _, content in link.delivered] == [*(content for _, content in due), None]
    for (due_ms, _), (at_ms, _) in zip(due, link.delivered[:-1], strict=True):
        assert at_ms >= due_ms
        assert not any(begin < at_ms < end for begin, end in cuts)


def test_sender_is_held_while_much_waits() -> None:
    link = Link()
    link.direction.set(is_cut=True, delay_ms=0)
    link.pipe.send(bytes(HELD_BYTES_MAX))
    assert link.held == []
    link.pipe.send(b"one")
    assert link.held == [True]
    link.direction.set(is_cut=False, delay_ms=0)
    assert link.held == [True, False]
    assert len(link.delivered) == 2
    link.close()


def test_closed_pipe_delivers_nothing() -> None:
    link = Link()
    link.direction.set(is_cut=True, delay_ms=0)
    link.pipe.send(b"one")
    link.pipe.close()
    link.direction.set(is_cut=False, delay_ms=0)
    link.pipe.send(b"two")
    assert link.delivered == []
    link.close()
