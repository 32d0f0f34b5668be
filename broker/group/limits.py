"""What bounds groups: settings, time, memory.

Apart from the rest of the coordinator, since every node reads this before it is ready.
"""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """The time at which an event happens."""

    wall_ms: int
    """Milliseconds since 1970: for what is stored."""
    monotonic_ms: int
    """For deadlines."""


class Limits(NamedTuple):
    """The settings that bound groups."""

    initial_delay_ms: int = 3_000
    session_min_ms: int = 6_000
    session_max_ms: int = 1_800_000
    members_max: int = 2**31 - 1
    metadata_bytes_max: int = 4_096
    members_bytes_max: int = 256 << 20
    """What the members of all groups may take together: beyond it nobody new enters."""
    pending_bytes_max: int = 32 << 20
    """What ids that were given out and not used yet may take: beyond it the oldest are dropped."""


class Memory:
    """What the members of all groups of a coordinator take together, about."""

    __slots__ = ("used_bytes",)

    def __init__(self) -> None:
        self.used_bytes = 0
