"""Settings that bound groups, and the time of an event.

Every node imports this module before it is ready, so it imports nothing of the coordinator.
"""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """The time at which an event happens."""

    wall_ms: int
    """Milliseconds since 1970: for what is stored."""
    monotonic_ms: int
    """For deadlines."""


class GroupLimits(NamedTuple):
    """The settings that bound classic groups, and the memory of all groups."""

    initial_delay_ms: int = 3_000
    session_min_ms: int = 6_000
    session_max_ms: int = 1_800_000
    members_max: int = 2**31 - 1
    metadata_bytes_max: int = 4_096
    members_bytes_max: int = 256 << 20
    """Memory for the members of all groups."""
    pending_bytes_max: int = 32 << 20
    """Memory for pending members; beyond it the oldest expire."""
