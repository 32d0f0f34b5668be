"""Where the newest batches lie: reads at the end of a log need no index and no disk."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

KEPT_MIN: Final = 64
KEPT_MAX: Final = 2 * KEPT_MIN


class Tail:
    """The newest batches of the segment in use, 64 to 128 of them; 8 KiB at most.

    Whoever appends adds to both lists in place (a call costs as much as the rest of the work) and
    calls `trim` now and then.
    """

    __slots__ = ("floor", "last_offsets", "positions")

    floor: int
    """Every batch that ends at or behind it is known, up to the end of the segment."""
    last_offsets: list[int]
    positions: list[int]

    def __init__(self, end_offset: int) -> None:
        self.last_offsets = []
        self.positions = []
        self.floor = end_offset

    def reset(self, end_offset: int) -> None:
        """Forget all; the next batch begins at or behind `end_offset`."""
        self.last_offsets.clear()
        self.positions.clear()
        self.floor = end_offset

    def trim(self) -> None:
        """Forget all but the newest 64."""
        surplus = len(self.last_offsets) - KEPT_MIN
        if surplus > 0:
            self.floor = self.last_offsets[surplus - 1] + 1
            del self.last_offsets[:surplus]
            del self.positions[:surplus]

    def find(self, offset: int, end_position: int) -> tuple[int, int] | None:
        """(position, size) of the first batch that ends at or behind `offset`.

        end_position  of the segment; it is the answer, with size 0, when there is no such batch
        returns       None for an offset before `floor`: the index has to be asked
        """
        if offset < self.floor:
            return None
        positions = self.positions
        index = bisect_left(self.last_offsets, offset)
        if index == len(positions):
            return end_position, 0
        position = positions[index]
        index += 1
        end = positions[index] if index < len(positions) else end_position
        return position, end - position
