"""Removes what an interrupted cleaning or deletion left in a log's folder.

The cleaner writes `<base>.log.cleaned` and its indexes, renames them to `.swap`, sets aside the
segments that they were made of (`.deleted`), the oldest first, and removes the `.swap` suffix.  So

    .deleted   is removed
    .cleaned   is removed: it may be half written
    .swap      takes the place of the segments that are gone

A segment that is there needs nothing in its place: it is cleaned again.  So a `.swap` is used only
when it has offsets that no segment has, and up to the next segment after these: there it is
truncated, and the segments from there on stay.  Segments before these offsets are replaced with a
warning, and only by a `.swap` without a flaw: an interrupted start of Apache Kafka, which deletes
segments in any order, may leave them.

Differs from Kafka: it puts a `.swap` into place while the segments are there, too, and deletes
these up to its last offset.  Nothing shows that the file is whole: a cleaning may leave any of the
batches, or none, so one that has been cut or replaced since would take records away.

A damaged `.swap` without its segments is all that is left of the records: it is put into place as
it is, and reading reports the damage.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles; KAFKA-6264, KAFKA-12520.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from odradek.protocol.records.batch import MAGIC
from odradek.runtime.files import FileSystem
from odradek.storage.events import Report, StorageEvent, summary
from odradek.storage.files import names
from odradek.storage.files.batch_scan import (
    CorruptBatch,
    FoundBatch,
    iterate_batches,
    iterate_headers,
)
from odradek.storage.recovery.torn_segments import flaw_of

_NO_LIMIT: Final = 2**63
_SCAN_CHUNK_BYTES: Final = 1 << 16
_LOG_SWAP: Final = names.LOG + names.SWAP


class _SwapLog(NamedTuple):
    """A `.log.swap` file."""

    path: str
    base_offset: int
    end_offset: int
    """Exclusive: where the next `.swap`, or the active segment, begins."""


class _Verified(NamedTuple):
    """What the part of a `.log.swap` is that is needed."""

    size: int
    """Bytes before the first batch of a segment that stays."""
    flaw: str | None
    """The first one in these bytes."""


def finish_swaps(
    files: FileSystem, directory: str, file_names: Sequence[str], report: Report
) -> list[str]:
    """Remove or rename them; returns the names that are in the folder then.

    raises  OSError; to be done again at the next start
    """
    if not any(name.endswith((names.DELETED, names.CLEANED, names.SWAP)) for name in file_names):
        return list(file_names)
    swaps = []
    # The .log file is renamed last: these indexes are not of the .log file that is there.
    unfinished = [name for name in file_names if name.endswith(names.LOG + names.CLEANED)]
    for name in file_names:
        parsed = names.parse_file_name(name)
        if name.endswith(names.SWAP) and parsed is not None:
            log_name = names.file_name(parsed[0], names.LOG)
            if log_name + names.CLEANED in unfinished and log_name + names.SWAP not in file_names:
                files.remove(f"{directory}/{name}")
            else:
                swaps.append((parsed[0], name))
    # A .cleaned file goes after those that it condemns: a crash between leaves the mark.
    for name in file_names:
        if name.endswith((names.DELETED, names.CLEANED)):
            files.remove(f"{directory}/{name}")
    if swaps:
        _Swaps(files, directory, swaps, report).finish()
    return files.list_files(directory).files


class _Swaps:
    """All `.swap` files of a folder; `finish` once."""

    def __init__(
        self, files: FileSystem, directory: str, swaps: Sequence[tuple[int, str]], report: Report
    ) -> None:
        self._files = files
        self._directory = directory
        self._swaps = swaps
        self._report = report
        self._header_flaws: dict[str, str] = {}
        """What `_last_missing_offset` met in a file that cannot be, by path."""
        self._segments = _Segments(files, directory)
        bases = [base for base, name in swaps if name.endswith(_LOG_SWAP)]
        # The active segment is never cleaned.
        ends = [*bases[1:], self._segments.active_base_after(bases[-1])] if bases else []
        self._logs = [
            _SwapLog(f"{directory}/{names.file_name(base, _LOG_SWAP)}", base, end)
            for base, end in zip(bases, ends, strict=True)
        ]

    def finish(self) -> None:
        """Put into place what is needed, and remove the rest; raises OSError."""
        files = self._files
        used = [log.base_offset for log in self._make_place()] if self._logs else []
        # A .log file that has its name already: its indexes follow.
        swapped = [log.base_offset for log in self._logs]
        used += [base for base in self._segments.bases if base not in swapped]
        # The .log file comes last: as long as it is a .swap, all this is done again.
        for base_offset, name in sorted(self._swaps, key=_is_log):
            path = f"{self._directory}/{name}"
            if base_offset not in used:
                files.remove(path)
            elif files.exists(path):
                files.rename(path, path.removesuffix(names.SWAP))

    def _make_place(self) -> Sequence[_SwapLog]:
        """Remove segments for the `.log.swap` files that are used, and returns these."""
        missing = self._last_missing_offset()
        if missing is None:
            for log in self._logs:
                flaw = self._header_flaws.get(log.path)
                reason = "none is missing, and they are cleaned again" if flaw is None else flaw
                text = f"removed, its segments stay: {reason}"
                self._report(StorageEvent(log.path, text, is_warning=flaw is not None))
            return ()
        first = self._logs[0]
        limit = self._segments.first_base_after(missing)
        needed = {log: self._verify(log, limit) for log in self._logs if log.base_offset < limit}
        replaced = [base for base in self._segments.bases if first.base_offset <= base < limit]
        flaws = {log.path: flaw for log, (_, flaw) in needed.items() if flaw is not None}
        outcome = "removed, its segments stay" if replaced else "used, nothing else is left"
        for path, flaw in flaws.items():
            self._report(StorageEvent(path, f"{outcome}: {flaw}"))
        if replaced and flaws:
            return ()
        if replaced:
            text = f"replaces segments ({summary(replaced)}): none has offset {missing}"
            self._report(StorageEvent(first.path, text))
        for log, (size, _) in needed.items():
            if size < self._files.size(log.path):
                self._truncate(log, size)
        self._remove_segments(first.base_offset, limit)
        return list(needed)

    def _last_missing_offset(self) -> int | None:
        """The last offset of the `.swap` files that no segment has; None when there is none."""
        first = self._logs[0].base_offset
        missing = None if self._segments.has(first, first) else first
        for log in self._logs:
            try:
                for batch in self._scan(log):
                    if not self._segments.has(batch.base_offset, batch.last_offset):
                        missing = batch.base_offset
            except CorruptBatch as error:
                self._header_flaws[log.path] = str(error)
        return missing

    def _scan(self, log: _SwapLog) -> Iterator[FoundBatch]:
        """Its batches, by their headers; raises CorruptBatch, OSError."""
        end_offset = log.base_offset
        for batch in _scan_headers(self._files, log.path):
            if not end_offset <= batch.base_offset <= batch.last_offset < log.end_offset:
                raise CorruptBatch(
                    f"at byte {batch.position} offsets {batch.base_offset} to "
                    f"{batch.last_offset} cannot be there"
                )
            end_offset = batch.last_offset + 1
            yield batch

    def _verify(self, log: _SwapLog, limit: int) -> _Verified:
        """`limit` is where the first segment that stays begins."""
        size = self._files.size(log.path)
        try:
            for batch in self._scan(log):
                if batch.base_offset >= limit:
                    size = batch.position
                    break
        except CorruptBatch as error:
            return _Verified(size, str(error))
        return _Verified(size, _damage(self._files, log, size))

    def _truncate(self, log: _SwapLog, size: int) -> None:
        """Cut it.  Its indexes go first: they are made again when they are missing only."""
        files = self._files
        for base_offset, name in self._swaps:
            path = f"{self._directory}/{name}"
            if base_offset == log.base_offset and path != log.path:
                files.remove(path)
        modified_ms = files.modified_ms(log.path)
        with closing(files.open(log.path)) as file:
            file.truncate(size)
            file.sync()
        files.set_modified_ms(log.path, modified_ms)

    def _remove_segments(self, first: int, limit: int) -> None:
        """Remove the files of the segments that begin in [first, limit), .log files first."""
        covered = []
        for name in self._files.list_files(self._directory).files:
            parsed = names.parse_file_name(name)
            if parsed is not None and first <= parsed[0] < limit:
                suffix = parsed[1]
                if suffix in names.SEGMENT_SUFFIXES:
                    covered.append((suffix != names.LOG, name))
        for _, name in sorted(covered):
            self._files.remove(f"{self._directory}/{name}")


class _Segments:
    """Which offsets the segments of a folder have, by the headers of their batches."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.bases = [
            parsed[0]
            for name in files.list_files(directory).files
            if (parsed := names.parse_file_name(name)) is not None and parsed[1] == names.LOG
        ]
        self._end_offsets: dict[int, int] = {}

    def active_base_after(self, offset: int) -> int:
        return self.bases[-1] if self.bases and self.bases[-1] > offset else _NO_LIMIT

    def first_base_after(self, offset: int) -> int:
        return next((base for base in self.bases if base > offset), _NO_LIMIT)

    def has(self, base_offset: int, last_offset: int) -> bool:
        """Whether a segment that begins at or before `base_offset` reaches `last_offset`."""
        number = bisect_right(self.bases, base_offset) - 1
        if number < 0:
            return False
        base = self.bases[number]
        if base not in self._end_offsets:
            self._end_offsets[base] = self._end_offset(base)
        return last_offset < self._end_offsets[base]

    def _end_offset(self, base: int) -> int:
        """Exclusive end of what can be read of a segment."""
        end_offset = base
        try:
            for batch in _scan_headers(
                self._files, f"{self._directory}/{names.file_name(base, names.LOG)}"
            ):
                end_offset = batch.last_offset + 1
        except CorruptBatch:
            pass
        return end_offset


def _is_log(swap: tuple[int, str]) -> bool:
    return swap[1].endswith(_LOG_SWAP)


def _scan_headers(files: FileSystem, path: str) -> Iterator[FoundBatch]:
    with closing(files.open(path)) as file:
        yield from iterate_headers(file, 0, file.size(), chunk_bytes=_SCAN_CHUNK_BYTES)


def _damage(files: FileSystem, log: _SwapLog, size: int) -> str | None:
    """The first flaw in `size` bytes of batches whose headers have none."""
    file, end_position = files.open(log.path), 0
    try:
        for position, batch in iterate_batches(file, 0, size):
            flaw = flaw_of(log.base_offset, batch)
            if flaw is not None:
                return f"at byte {position} {flaw}"
            end_position = position + batch.size
        # The checksums of the formats from before Kafka 0.11 are not looked at.
        for header in iterate_headers(file, end_position, size, chunk_bytes=_SCAN_CHUNK_BYTES):
            if header.magic == MAGIC:
                return f"no whole batch at byte {header.position}"
        return None
    finally:
        file.close()
