"""What an operator needs to know of the logs: plain data, passed to the caller's `Report`.

`storage` does not log.  What it truncates, removes, rebuilds or finds damaged it reports through
`Descriptors.report`, which the broker sets; a report may come from any thread and must not block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

NAMED_MAX: Final = 10
"""How many of a list of offsets one report names."""


class StorageEvent(NamedTuple):
    """One thing that happened."""

    place: str
    """The log's folder, or a file."""
    text: str
    """What was done, with offsets or bytes, and why."""
    is_warning: bool = True
    """False: expected in the life of a log (retention, a clean-up)."""
    is_out_of_space: bool = False
    """Whether an append to a log was refused because the disk, or a quota, is full."""


Report = Callable[[StorageEvent], None]


def ignore(event: StorageEvent) -> None:
    """Report nothing."""


def summary(offsets: Sequence[int]) -> str:
    """Offsets as text for a report: the first `NAMED_MAX`, and the last one."""
    named = ", ".join(map(str, offsets[:NAMED_MAX]))
    return named if len(offsets) <= NAMED_MAX else f"{named}, ... {offsets[-1]}"
