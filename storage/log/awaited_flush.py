"""What a log withholds until a flush has ended (flush.messages).

flush.messages=N promises that a power cut takes fewer than N acknowledged records.

Kafka flushes within the append that reaches the bound, before its response.  Here the flush runs in
a thread, and the records of that append, and all after them, do not count as appended until it has
ended: the high watermark stays below them and their responses wait; a follower does not fetch,
which would acknowledge them.  Appends meanwhile that reach the bound again need a further flush,
which takes in all of them (group commit).  Pure.

Source: Kafka's UnifiedLog.append, log.flush.interval.messages.
"""

from __future__ import annotations

from collections.abc import Callable


class AwaitedFlush:
    """The flush that one log awaits, and what is called when it has ended."""

    __slots__ = ("_end_offset", "_waiting", "held_from")

    held_from: int | None
    """Nothing from this offset on counts as appended yet; None while no flush is awaited."""

    def __init__(self) -> None:
        self.held_from = None
        self._end_offset = 0  # a flush that takes in everything below it ends the waiting
        self._waiting: list[Callable[[], None]] = []

    def hold(self, start_offset: int, end_offset: int) -> None:
        """Records that must be flushed were appended: [start, end), the end of the log."""
        if self.held_from is None:
            self.held_from = start_offset
        self._end_offset = end_offset

    def committable_end(self, end_offset: int) -> int:
        """Exclusive: the end of what counts as appended of a log that ends at `end_offset`."""
        return end_offset if self.held_from is None else self.held_from

    def holds(self, offset: int) -> bool:
        """Whether the record at `offset` waits for a flush."""
        return self.held_from is not None and offset >= self.held_from

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back when nothing is held; at once when nothing is now.  Of a log that goes offline
        there is no call."""
        if self.held_from is None:
            callback()
        else:
            self._waiting.append(callback)

    def flushed(self, end_offset: int) -> None:
        """A flush of everything below `end_offset` has ended."""
        if self.held_from is not None:
            self.held_from = max(self.held_from, end_offset)
            self._end_if_all_is_flushed()

    def truncate_to(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`."""
        self._end_offset = min(self._end_offset, end_offset)
        self._end_if_all_is_flushed()

    def _end_if_all_is_flushed(self) -> None:
        if self.held_from is not None and self.held_from >= self._end_offset:
            self.held_from = None
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()
