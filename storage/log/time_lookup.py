"""A search by time that takes too long for an event loop, done in a thread.

It works on a copy of what the log was when it began: names, sizes and times of the segments.  The
log changes meanwhile.  What is found stays right when retention or compaction have removed segments
since, but for records below the log start offset; after a truncation it is not used.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.errors import BrokerError
from odradek.runtime.files import FileSystem
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log import reading
from odradek.storage.log.log import Log
from odradek.storage.log.lookup_budget import UNLIMITED
from odradek.storage.segments.segment import Segment

OPEN_MAX: Final = 8


class Outdated(Exception):
    """The log has changed so that a finished search is void; begin again."""


class TimeLookup:
    """One search; `run` in a thread, everything else on the loop."""

    def __init__(self, log: Log, timestamp_ms: int | None) -> None:
        """timestamp_ms  None: search the record with the greatest timestamp"""
        self._log = log
        self._timestamp_ms = timestamp_ms
        self._truncation_count = log.truncation_count
        self._first_base_offset = log.segments.base_offsets[0]
        self._start_offset = log.log_start_offset
        self._segments = [
            (
                segment.base_offset,
                segment.size,
                segment.largest_timestamp() if segment.is_time_known() else None,
            )
            for segment in log.readable_segments()
        ]
        self._found: reading.RecordPosition | None = None
        self._error: Exception | None = None
        self._copies: list[Segment] = []
        self._unusable: dict[int, str] = {}
        self._is_waiting = False
        """Whether indexes are being rebuilt that it needs."""
        self.is_done = False

    def run(self, files: FileSystem) -> None:
        """Search; `result` raises the errors."""
        shared = Descriptors(files, open_max=OPEN_MAX, rebuild_later=self._note_unusable)
        for base_offset, size, largest in self._segments:
            copy = Segment(shared, self._log.directory, base_offset, size=size, created_ms=0)
            if largest is not None:
                copy.note_largest(largest)
            self._copies.append(copy)
        copies, start_offset, timestamp_ms = self._copies, self._start_offset, self._timestamp_ms
        try:
            if timestamp_ms is None:
                self._found = reading.search_greatest(copies, start_offset, UNLIMITED)
            else:
                self._found = reading.search_by_time(copies, start_offset, timestamp_ms, UNLIMITED)
        except BrokerError as error:
            _forget_frames(error)
            self._error = error
        except Exception as error:  # noqa: BLE001 - `result` raises it where it gets a response
            self._error = error
        finally:
            for copy in copies:
                copy.drop()

    def _note_unusable(self, segment: Segment, reason: str) -> None:
        self._unusable[segment.base_offset] = reason

    def finish(self) -> None:
        """The thread is done: keep the times that it has read, have indexes rebuilt."""
        self.is_done = True
        log = self._log
        if log.truncation_count != self._truncation_count or log.is_offline:
            return
        for copy in self._copies:
            segment = log.segments[log.segments.number_of(copy.base_offset)]
            is_same = segment.base_offset == copy.base_offset and segment.size == copy.size
            if not is_same or segment.is_ready:
                continue
            if copy.is_time_known():
                segment.note_largest(copy.largest_timestamp())
            if segment.base_offset in self._unusable:
                segment.rebuild_later(self._unusable[segment.base_offset])
                self._is_waiting = True

    def result(self) -> reading.RecordPosition | None:
        """The record, None when there is no such record.

        raises  Outdated; OSError; BrokerError CORRUPT_MESSAGE, INVALID_RECORD, IndexUnready
        """
        log = self._log
        if log.truncation_count != self._truncation_count:
            raise Outdated
        error = self._error
        if error is not None:
            is_unready = isinstance(error, IndexUnready)
            if log.segments.base_offsets[0] != self._first_base_offset or (
                is_unready and not self._is_waiting
            ):
                # Its files were renamed, or replaced by cleaned ones, during the search.
                raise Outdated from error
            with log.damage_reported():
                raise error
        if self._found is not None and self._found.offset < log.log_start_offset:
            raise Outdated
        return self._found


def _forget_frames(error: BaseException) -> None:
    """The frames of a failed decompression contain 100 MiB, and the error is kept until the
    requests that wait for the search end."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__context__
