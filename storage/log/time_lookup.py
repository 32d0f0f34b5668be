"""A search by time that takes too long for an event loop, done in a thread.

It works on a copy of what the log was when it began: names, sizes and times of the segments.  The
log changes meanwhile: a cleaned segment has the name of one that it replaces, so that the thread
may have read files of both.  What it finds or meets is void when a segment was replaced, removed or
truncated before its end.  It writes no file.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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


class _Origin(NamedTuple):
    """A segment, and what it was when the search began."""

    segment: Segment
    truncation_count: int
    base_offset: int
    size: int
    largest: tuple[int, int] | None
    """Its `largest_timestamp`, None if that has to be read."""

    @classmethod
    def of(cls, segment: Segment) -> _Origin:
        largest = segment.largest_timestamp() if segment.is_time_known() else None
        return cls(segment, segment.truncation_count, segment.base_offset, segment.size, largest)

    @property
    def is_changed(self) -> bool:
        """Whether it was truncated since, or taken out of the log; on the loop."""
        return self.segment.truncation_count != self.truncation_count


class TimeLookup:
    """One search; `run` in a thread, everything else on the loop."""

    def __init__(self, log: Log, timestamp_ms: int | None) -> None:
        """timestamp_ms  None: search the record with the greatest timestamp"""
        self._log = log
        self._timestamp_ms = timestamp_ms
        self._truncation_count = log.truncation_count
        self._start_offset = log.log_start_offset
        self._segments = [_Origin.of(segment) for segment in log.readable_segments()]
        self._found: reading.RecordPosition | None = None
        self._error: Exception | None = None
        self._copies: list[Segment] = []
        self._unusable: dict[int, str] = {}
        self._is_void = False
        self._is_waiting = False
        """Whether indexes are being rebuilt that it needs."""
        self.is_done = False

    def run(self, files: FileSystem) -> None:
        """Search; `result` raises the errors."""
        shared = Descriptors(
            files, open_max=OPEN_MAX, rebuild_later=self._note_unusable, is_read_only=True
        )
        for origin in self._segments:
            copy = Segment(
                shared, self._log.directory, origin.base_offset, size=origin.size, created_ms=0
            )
            if origin.largest is not None:
                copy.note_largest(origin.largest)
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
        self._is_void = any(origin.is_changed for origin in self._segments)
        for origin, copy in zip(self._segments, self._copies, strict=False):
            segment = origin.segment
            if origin.is_changed or segment.size != copy.size or segment.is_ready:
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
        if self._is_void:
            raise Outdated from error
        if error is not None:
            if isinstance(error, IndexUnready) and not self._is_waiting:
                # The segment was appended to, or rolled, during the search.
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
