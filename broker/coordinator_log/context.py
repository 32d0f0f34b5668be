"""The parts of a node that the shards of every coordinator use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.broker.purgatory import Purgatory, Wheel
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.scheduler import scheduler_of
from odradek.runtime.work import in_units


class CoordinatorContext:
    """Clock, timers and purgatory of the node."""

    __slots__ = ("clock", "purgatory", "scheduler", "wheel")

    def __init__(self, purgatory: Purgatory, wheel: Wheel, clock: Clock) -> None:
        self.purgatory = purgatory
        self.wheel = wheel
        self.clock = clock
        self.scheduler = scheduler_of(clock, self.defer, "coordinators")

    def after(self, wait_ms: int, work: Callable[[], None]) -> None:
        """Call `work` once, in `wait_ms`."""
        self.wheel.add(self.clock.monotonic_ms() + wait_ms, work)

    def wait(self, wait_ms: int) -> Pending[None]:
        """Done in `wait_ms`."""
        waited: Pending[None] = Pending()
        self.after(wait_ms, lambda: waited.resolve(None))
        return waited

    def defer(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn of the event loop."""
        self.after(0, work)

    def run_between_requests(self, steps: Iterator[None]) -> None:
        """Run steps in slices of 2 ms, from the next turn of the event loop on."""
        self.scheduler.run_later(lambda: in_units(steps))
