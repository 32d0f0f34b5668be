"""What the shards of the transaction coordinator need from their node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.broker.purgatory import Purgatory, Wheel
from odradek.runtime.clock import Clock
from odradek.runtime.slicing import run_in_slices


class TransactionSettings(NamedTuple):
    """The settings that bound transactions.

    timeout_max_ms  transaction.max.timeout.ms
    expiration_ms   transactional.id.expiration.ms
    append_ms       how long a tombstone waits for the replicas; request.timeout.ms
    """

    timeout_max_ms: int = 900_000
    expiration_ms: int = 604_800_000
    append_ms: int = 30_000


class TransactionContext:
    """Clock, timers, purgatory and settings of the node."""

    __slots__ = ("clock", "purgatory", "settings", "wheel")

    def __init__(
        self, purgatory: Purgatory, wheel: Wheel, clock: Clock, settings: TransactionSettings
    ) -> None:
        self.purgatory = purgatory
        self.wheel = wheel
        self.clock = clock
        self.settings = settings

    def after(self, wait_ms: int, work: Callable[[], None]) -> None:
        """Call `work` once, in `wait_ms`."""
        self.wheel.add(self.clock.monotonic_ms() + wait_ms, work)

    def defer(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn of the event loop."""
        self.after(0, work)

    def run_between_requests(self, steps: Iterator[None]) -> None:
        """Run steps in slices of 2 ms, from the next turn of the event loop on."""
        self.defer(lambda: run_in_slices(steps, self.clock, self.defer))
