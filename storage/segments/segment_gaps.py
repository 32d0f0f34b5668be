"""Gaps between the segments of one log of which recovery cannot say where they come from.

A power cut may have taken the end of a segment and left the next one; what follows is kept, since
it may be all there is.  Compaction leaves such gaps too, also in a replica that copied them.  The
log alone cannot tell, so a follower asks its leader what is in a gap before it fetches at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class SegmentGap(NamedTuple):
    """Offsets without a batch between two segments."""

    start_offset: int
    """Where the batches before it end."""
    end_offset: int
    """Exclusive: the base offset of the segment after it."""


class SegmentGaps:
    """The gaps of one log that are not explained yet, ascending; at most one for each segment."""

    __slots__ = ("_gaps",)

    def __init__(self, gaps: Iterable[SegmentGap] = ()) -> None:
        self._gaps = tuple(gaps)

    def __iter__(self) -> Iterator[SegmentGap]:
        return iter(self._gaps)

    def first(self, log_start_offset: int) -> SegmentGap | None:
        """The first gap, as far as it is at or above the log start offset; None: there is none."""
        for gap in self._gaps:
            if gap.end_offset > log_start_offset:
                return SegmentGap(max(gap.start_offset, log_start_offset), gap.end_offset)
        return None

    def explain(self, up_to_offset: int) -> None:
        """Nothing is missing below an offset."""
        self._gaps = tuple(
            SegmentGap(max(gap.start_offset, up_to_offset), gap.end_offset)
            for gap in self._gaps
            if gap.end_offset > up_to_offset
        )

    def explain_all(self) -> None:
        """No replica can have what may be missing."""
        self._gaps = ()

    def truncate_to(self, end_offset: int) -> None:
        """The log ends at an offset now: what is missing is fetched with what was dropped."""
        self._gaps = tuple(
            SegmentGap(gap.start_offset, min(gap.end_offset, end_offset))
            for gap in self._gaps
            if gap.start_offset < end_offset
        )

    def take_over(self, other: SegmentGaps) -> None:
        """Have the gaps of the log that this one is a copy of, too."""
        self._gaps = tuple(sorted({*self._gaps, *other._gaps}))
