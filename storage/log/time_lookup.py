"""A search by time that takes too long for an event loop, done in a thread.

It works on a copy of what the log was when it began: names, sizes and times of the segments.  The
log goes on meanwhile.  What is found stays right when retention or compaction have removed segments
since, but for records before the start of the log; after a truncation it is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.runtime.files import FileSystem
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log import reading
from odradek.storage.log.lookup_budget import UNLIMITED
from odradek.storage.segments.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log.log import Log

OPEN_MAX: Final = 8


class Outdated(Exception):
    """The log has changed in a way that makes a finished search worth nothing; begin again."""


class TimeLookup:
    """One search; `run` in a thread, everything else on the loop."""

    def __init__(self, log: Log, timestamp_ms: int | None) -> None:
        """timestamp_ms  None: the record with the greatest timestamp is wanted"""
        self._log = log
        self._timestamp_ms = timestamp_ms
        self._cut_count = log.cut_count
        self._first_base_offset = log.first_base_offset
        self._start_offset = log.log_start_offset
        self._segments = [
            (
                segment.base_offset,
                segment.size,
                segment.largest_timestamp() if segment.is_time_known() else None,
            )
            for segment in reading.readable_segments(log)
        ]
        self._found: reading.Position | None = None
        self._error: Exception | None = None
        self._copies: list[Segment] = []
        self._unusable: dict[int, str] = {}
        self._is_waiting = False
        """Whether indexes are being rebuilt that it needs."""
        self.is_done = False

    def run(self, files: FileSystem) -> None:
        """Search; what fails is raised by `result`."""
        shared = Descriptors(files, open_max=OPEN_MAX)
        shared.rebuild_later = self._note_unusable
        for base_offset, size, largest in self._segments:
            copy = Segment(shared, self._log.directory, base_offset, size=size, created_ms=0)
            if largest is not None:
                copy.note_largest(largest)
            self._copies.append(copy)
        search = reading.search_by_time
        try:
            if self._timestamp_ms is None:
                self._found = reading.search_greatest(self._copies, self._start_offset, UNLIMITED)
            else:
                self._found = search(
                    self._copies, self._start_offset, self._timestamp_ms, UNLIMITED
                )
        except Exception as error:  # noqa: BLE001 - `result` raises it where it can be answered
            self._error = error
        finally:
            for copy in self._copies:
                copy.drop()

    def _note_unusable(self, segment: Segment, reason: str) -> None:
        self._unusable[segment.base_offset] = reason

    def finish(self) -> None:
        """The thread is done: keep the times that it has read, have indexes rebuilt."""
        self.is_done = True
        log = self._log
        if log.cut_count != self._cut_count or log.is_offline:
            return
        for copy in self._copies:
            segment = log.segments[log.segment_number(copy.base_offset)]
            is_same = segment.base_offset == copy.base_offset and segment.size == copy.size
            if not is_same or segment.is_ready:
                continue
            if copy.is_time_known():
                segment.note_largest(copy.largest_timestamp())
            if segment.base_offset in self._unusable:
                segment.rebuild_later(self._unusable[segment.base_offset])
                self._is_waiting = True

    def result(self) -> reading.Position | None:
        """What was found, None when there is no such record.

        raises  Outdated; OSError; BrokerError CORRUPT_MESSAGE, INVALID_RECORD, IndexUnready
        """
        log = self._log
        if log.cut_count != self._cut_count:
            raise Outdated
        error = self._error
        if error is not None:
            is_unready = isinstance(error, IndexUnready)
            if log.first_base_offset != self._first_base_offset or (
                is_unready and not self._is_waiting
            ):
                # Its files were renamed, or replaced by cleaned ones, while it looked at them.
                raise Outdated from error
            with reading.damage_reported(log):
                raise error
        if self._found is not None and self._found[0] < log.log_start_offset:
            raise Outdated
        return self._found
