"""Consumer lag as time: how long ago the record that a group reads next was written.

The ends of partitions are remembered at each look, so the time of a record is between two looks,
and is taken in proportion.  The time of what was written before the first look is unknown: the lag
counts from that look.  Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

LOOKS_MAX: Final = 64
"""Looks that are remembered of a partition: 1 KB.  When there are more, every second one of the
older half is dropped."""
PARTITIONS_MAX: Final = 20_000
"""Others have no lag in seconds."""


class EndHistory:
    """The end offsets of one partition, and when it had them."""

    __slots__ = ("_offsets", "_times_ms")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._times_ms = array("q")

    def look(self, end_offset: int, now_ms: int) -> None:
        """Remember the end.  One that is lower than before follows a truncation: what is above it
        is forgotten."""
        offsets, times_ms = self._offsets, self._times_ms
        while offsets and offsets[-1] > end_offset:
            offsets.pop()
            times_ms.pop()
        if len(offsets) > 1 and offsets[-1] == offsets[-2] == end_offset:
            times_ms[-1] = now_ms
            return
        offsets.append(end_offset)
        times_ms.append(now_ms)
        if len(offsets) > LOOKS_MAX:
            del offsets[1 : LOOKS_MAX // 2 : 2]
            del times_ms[1 : LOOKS_MAX // 2 : 2]

    def lag_ms(self, committed_offset: int, now_ms: int) -> float:
        """How old the record at `committed_offset` is; 0 when there is none yet."""
        offsets, times_ms = self._offsets, self._times_ms
        after = bisect_right(offsets, committed_offset)
        if after == len(offsets):
            return 0.0
        if after == 0:
            return float(now_ms - times_ms[0])
        before_offset, before_ms = offsets[after - 1], times_ms[after - 1]
        share = (committed_offset - before_offset) / (offsets[after] - before_offset)
        return now_ms - (before_ms + share * (times_ms[after] - before_ms))


class LagTimes:
    """The histories of the partitions that groups read."""

    def __init__(self) -> None:
        self._histories: dict[tuple[str, int], EndHistory] = {}
        self._is_seen: dict[tuple[str, int], None] = {}

    def look(self, key: tuple[str, int], end_offset: int, now_ms: int) -> EndHistory | None:
        """Remember the end of a partition, once in a look at all; None beyond `PARTITIONS_MAX`."""
        history = self._histories.get(key)
        if history is None:
            if len(self._histories) >= PARTITIONS_MAX:
                return None
            history = self._histories[key] = EndHistory()
        if key not in self._is_seen:
            self._is_seen[key] = None
            history.look(end_offset, now_ms)
        return history

    def end_look(self) -> None:
        """Forget the partitions that no group reads any more."""
        for key in tuple(self._histories):
            if key not in self._is_seen:
                del self._histories[key]
        self._is_seen.clear()
