"""Where the newest batches are: reads at the end of a log need no index and no disk."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

KEPT_MIN: Final = 64
KEPT_MAX: Final = 2 * KEPT_MIN


class Tail:
    """Positions of the newest batches of the active segment, 64 to 128 of them; 8 KiB at most.

    `Head` appends to both lists in place, since a call would cost as much as the rest of the work,
    and calls `trim` when they are longer than `KEPT_MAX`.
    """

    __slots__ = ("floor", "last_offsets", "positions")

    floor: int
    """Every batch whose last offset is >= this is known, up to the end of the segment."""
    last_offsets: list[int]
    positions: list[int]

    def __init__(self, end_offset: int) -> None:
        self.last_offsets = []
        self.positions = []
        self.floor = end_offset

    def reset(self, end_offset: int) -> None:
        """Forget all batches; the next one begins at or after `end_offset`."""
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
        """(position, size) of the first batch whose last offset is >= `offset`.

        end_position  of the segment; returned with size 0 when there is no such batch
        returns       None for an offset below `floor`: an index lookup is needed
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
