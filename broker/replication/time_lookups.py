"""Searches by time that are too long for the event loop: in threads, two at once.

A search of the same log for the same time is joined, not done twice.  The purgatory is notified of
the partition at the end of each search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.partition import Partition
from odradek.runtime.files import FileSystem
from odradek.storage.log.log import Log
from odradek.storage.log.time_lookup import TimeLookup

AT_ONCE_MAX: Final = 2

InThread = Callable[[Callable[[], None], Callable[[], None]], None]
"""Runs the first function in a thread and then the second one on the loop."""


class TimeLookups:
    """The searches under way and waiting; at most as many as requests wait for one."""

    def __init__(self, files: FileSystem, in_thread: InThread, purgatory: Purgatory) -> None:
        self._files = files
        self._in_thread = in_thread
        self._purgatory = purgatory
        self._known: dict[tuple[Log, int | None], TimeLookup] = {}
        self._waiting: deque[tuple[Partition, int | None, TimeLookup]] = deque()
        self._running = 0

    def start(self, partition: Partition, timestamp_ms: int | None) -> TimeLookup:
        """Begin a search, or join the same one under way.

        timestamp_ms  None: search for the record with the greatest timestamp
        """
        key = (partition.log, timestamp_ms)
        lookup = self._known.get(key)
        if lookup is None:
            lookup = self._known[key] = TimeLookup(partition.log, timestamp_ms)
            self._waiting.append((partition, timestamp_ms, lookup))
            self._run_some()
        return lookup

    def _run_some(self) -> None:
        while self._waiting and self._running < AT_ONCE_MAX:
            partition, timestamp_ms, lookup = self._waiting.popleft()
            self._run(partition, (partition.log, timestamp_ms), lookup)

    def _run(self, partition: Partition, key: tuple[Log, int | None], lookup: TimeLookup) -> None:
        def done() -> None:
            self._running -= 1
            del self._known[key]
            lookup.finish()
            self._run_some()
            self._purgatory.notify(partition)
            self._purgatory.run_notified()

        self._running += 1
        self._in_thread(lambda: lookup.run(self._files), done)
