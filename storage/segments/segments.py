"""The segments of one log, ordered by base offset; the last one is the active segment.

Owns which segments there are and the renames that add and remove them.  Offsets of the log (start,
end, high watermark, recovery point), producers and leader epochs are its caller's.

A file that is taken out of the log is renamed to `.deleted`; every start removes such files, and
the caller has them removed in a thread before that.  Truncation renames the newest segment first,
retention the oldest, so that a crash leaves no hole.

Cleaned segments replace those that they were made of.  The worker has written and synced
`<base>.log.cleaned` and its indexes.  For each group, in this order, every step a rename:

    1  .cleaned      becomes .swap, the .log file last
    2  old segments  become .deleted, the oldest first: what a crash leaves of the group is its
                     newer part, so that no record comes back without what replaced it
    3  .swap         loses that name, the .log file last

One group after the other.  A start puts a `.swap` into the place of the segments of its group that
are gone (recovery/swap_files).  The folder need not be synced in between, since a file system keeps
the order of renames in a folder; it has to be synced before a checkpoint says that the log is
clean.

A slice of an old segment stays readable: the segment's file stays open until the slice is released.

Source: Kafka's LogSegments, LocalLog (removeAndDeleteSegments, replaceSegments); KAFKA-6264.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple, overload

from odradek.storage.files import names
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.segments.segment import Segment, TruncationPoint

_INDEX_SUFFIXES = (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX)
_REPLACED_SUFFIXES = (names.TXN_INDEX, names.TIME_INDEX, names.OFFSET_INDEX, names.LOG)


class CleanedGroup(NamedTuple):
    """A group of old segments and the one that replaces them (files in `.cleaned`, synced)."""

    base_offset: int
    replaced_base_offsets: tuple[int, ...]
    size_bytes: int
    """Size of the `.log` file; 0: no record of the group is left, and there is an empty segment."""


class Segments:
    """The segments of one log, oldest first; never empty but between `remove_all` and `add`."""

    __slots__ = ("_segments", "active", "base_offsets", "directory", "shared")

    active: Segment
    """The last segment, to which batches are appended."""
    base_offsets: list[int]
    """Base offsets of the segments, ascending; not to be changed by the caller."""
    directory: str
    """The partition's folder."""

    def __init__(self, shared: Descriptors, directory: str, segments: list[Segment]) -> None:
        self.shared = shared
        self.directory = directory
        self._segments = segments
        self.base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, number: int) -> Segment: ...
    @overload
    def __getitem__(self, number: slice) -> list[Segment]: ...
    def __getitem__(self, number: int | slice) -> Segment | list[Segment]:
        return self._segments[number]

    def number_of(self, offset: int) -> int:
        """Number of the segment that may contain `offset`, 0 for offsets before all segments."""
        return bisect_right(self.base_offsets, offset, 1) - 1

    def size_bytes(self) -> int:
        """Bytes of all batches, without indexes."""
        return sum(segment.size for segment in self._segments)

    # Appending.

    def add(self, base_offset: int, *, created_ms: int) -> None:
        """Create an empty segment after the last one and make it the active one.

        raises  OSError; the segments are as before, some files of the new one may exist
        """
        created = Segment.create(self.shared, self.directory, base_offset, created_ms=created_ms)
        if self._segments:
            self.active.seal()
        self._segments.append(created)
        self.base_offsets.append(base_offset)
        self.active = created

    # Removing.

    def remove_first(self, paths: list[str]) -> None:
        """Take the oldest segment out of the log; `paths` grows by the names of its files now.

        raises  OSError: the segment stays
        """
        segment = self._segments[0]
        self._rename_to_deleted(segment.handle.path, paths)
        segment.drop()
        del self._segments[0], self.base_offsets[0]
        # Index files without their .log file are useless: the next start removes those that stay.
        with contextlib.suppress(OSError):
            self._rename_indexes_to_deleted(segment, paths)

    def remove_last(self, paths: list[str]) -> None:
        """Take the newest segment out of the log; `paths` grows by the names of its files now.

        raises  OSError; the files of this segment may be renamed or not
        """
        segment = self._segments[-1]
        segment.drop()
        self._rename_to_deleted(segment.handle.path, paths)
        self._rename_indexes_to_deleted(segment, paths)
        self._segments.pop()
        self.base_offsets.pop()
        if self._segments:
            self.active = self._segments[-1]

    def _rename_indexes_to_deleted(self, segment: Segment, paths: list[str]) -> None:
        for suffix in _INDEX_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self._rename_to_deleted(segment.path(suffix), paths)

    def _rename_to_deleted(self, path: str, paths: list[str]) -> None:
        self.shared.files.rename(path, path + names.DELETED)
        paths.append(path + names.DELETED)

    def plan_truncation(self, offset: int) -> tuple[int, TruncationPoint | None]:
        """What a truncation to `offset` does at first.

        Segments that are removed whole must be gone for good before the one before them is cut: a
        power cut that took back the removal only would leave a hole below the recovery point, where
        nothing looks for it.  So where both is due, the segments are removed now, and the next
        truncation to `offset` cuts the file.  Kafka has no such order.

        returns  (end, point): where the log ends then; where the segment that may contain `offset`
                 is truncated, None: nowhere
        raises   as `Segment.plan_truncation`; nothing has changed then
        """
        last = self._segments[self.number_of(offset)]
        point = last.plan_truncation(offset)
        if point is None:
            # The batches end before `offset`; offsets between were compacted away.
            return offset, None
        if last is self.active:
            return min(point.batch.base_offset, offset), point
        batch = last.last_batch()
        assert batch is not None, "it has a batch at the point"
        return batch.last_offset + 1, None

    def truncate_to(
        self, offset: int, point: TruncationPoint | None, *, now_ms: int, paths: list[str]
    ) -> None:
        """Remove the segments above `offset`, and cut the last one that remains.

        point   where; what `plan_truncation` returned
        paths   grows by the names of the files of removed segments now
        raises  OSError, CorruptBatch: the segments must be loaded again then
        """
        while self.base_offsets[-1] > offset:
            self.remove_last(paths)
        if point is not None:
            self.active.truncate(point, now_ms)

    def remove_all(self, paths: list[str]) -> None:
        """Take every segment out of the log, the newest first; `add` must follow.

        paths   grows by the names of their files now
        raises  OSError
        """
        while self._segments:
            self.remove_last(paths)

    def drop_all(self) -> None:
        """Close the files of all segments; slices that are held stay readable."""
        for segment in self._segments:
            segment.drop()

    # Replacing.

    def can_replace(self, group: CleanedGroup) -> bool:
        """Whether the log still has the segments, closed, and the cleaned files exist."""
        replaced = list(group.replaced_base_offsets)
        number = bisect_left(self.base_offsets, replaced[0])
        end_number = number + len(replaced)
        if group.base_offset != replaced[0] or self.base_offsets[number:end_number] != replaced:
            return False
        if end_number >= len(self._segments):
            return False
        files = self.shared.files
        path = self._segments[number].handle.path + names.CLEANED
        return files.exists(path) and files.size(path) == group.size_bytes

    def replace(self, group: CleanedGroup, *, now_ms: int) -> list[str]:
        """Put a cleaned segment into the place of the segments that it was made of.

        returns  the names of the old segments' files now
        raises   OSError: some files have their new names, others not; the next start finishes it
        """
        files = self.shared.files
        number = bisect_left(self.base_offsets, group.base_offset)
        end_number = number + len(group.replaced_base_offsets)
        cleaned = Segment(
            self.shared, self.directory, group.base_offset, size=group.size_bytes, created_ms=now_ms
        )
        present = [
            path
            for suffix in _REPLACED_SUFFIXES
            if files.exists((path := cleaned.path(suffix)) + names.CLEANED)
        ]
        for path in present:
            files.rename(path + names.CLEANED, path + names.SWAP)
        paths: list[str] = []
        for old in self._segments[number:end_number]:
            for path in reversed(old.existing_paths()):
                self._rename_to_deleted(path, paths)
            old.drop()
        for path in present:
            files.rename(path + names.SWAP, path)
        self._segments[number:end_number] = [cleaned]
        self.base_offsets[number:end_number] = [group.base_offset]
        return paths
