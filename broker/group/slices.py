"""Work over many groups that gives way to clients again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.broker.purgatory import Wheel
from odradek.runtime.clock import Clock

SLICE_MS: Final = 2
"""How long it may keep the loop from its clients."""


def run_in_slices(wheel: Wheel, clock: Clock, steps: Iterator[None]) -> None:
    """Begin at the next turn of the loop; a slice ends with the step that exceeds its time."""

    def run() -> None:
        end_ms = clock.monotonic_ms() + SLICE_MS
        for _ in steps:
            if clock.monotonic_ms() >= end_ms:
                wheel.add(clock.monotonic_ms(), run)
                return

    wheel.add(clock.monotonic_ms(), run)
