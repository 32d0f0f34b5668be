"""Rebuilds the indexes of a segment in a thread, while the segment is read and appended to.

The new indexes are written to other files, under names that every start removes (`.deleted`),
synced, and renamed on the event loop if the segment still has the same batches.  What was appended
to the active segment during the run is indexed then, or by another run if it is much.

A lookup that needs the indexes meanwhile raises `IndexUnready`: a fetch returns nothing from that
segment and waits, ListOffsets waits; what needs no index is served.
"""

from __future__ import annotations

from typing import Final

from odradek.runtime.files import FileSystem, sync_file
from odradek.storage.events import StorageEvent
from odradek.storage.files import names
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.indexes.segment_indexes import SegmentIndexes
from odradek.storage.segments.segment import Segment

SUFFIX: Final = ".rebuilt" + names.DELETED
REST_BYTES_MAX: Final = 256 << 10
"""What the event loop walks over at the end: 5 ms if batches are as small as they can be."""
OPEN_MAX: Final = 4


class IndexRebuild:
    """A disk job for one segment; `run` in a thread and `finish` on the loop take turns."""

    def __init__(self, segment: Segment, reason: str) -> None:
        self.segment = segment
        self.reason = reason
        """What is wrong with the indexes."""
        self.directory = segment.directory.rpartition("/")[0]
        """The directory of log.dirs."""
        self._truncation_count = segment.truncation_count
        self._end_position = segment.size
        self._is_closed = not segment.is_ready
        self._built: Segment | None = None
        self._walked = 0

    @property
    def path(self) -> str:
        """The path of the segment."""
        return self.segment.handle.path

    def run(self, files: FileSystem) -> None:
        """Walk over the batches and write the indexes; raises OSError."""
        built = self._built
        if built is None:
            built = self._built = self._begin(files)
        try:
            self._walk(built)
        except (CorruptBatch, FileNotFoundError) as error:
            # The file may have been renamed or truncated meanwhile; `finish` knows.
            built.note_damage(f"{self.segment.handle.path}: {error}")
            return
        finally:
            built.handle.close()
        if self._is_closed:
            built.note_greatest()
        built.indexes.write()
        for index in (built.indexes.offsets, built.indexes.times):
            sync_file(files, index.path)

    def _begin(self, files: FileSystem) -> Segment:
        origin = self.segment
        built = Segment(
            Descriptors(files, open_max=OPEN_MAX),
            origin.directory,
            origin.base_offset,
            size=0,
            created_ms=0,
        )
        built.use_indexes(
            SegmentIndexes(built.shared, origin.directory, origin.base_offset, suffix=SUFFIX)
        )
        return built

    def _walk(self, built: Segment) -> None:
        built.extend_to(self._end_position)
        built.walk(self._walked)
        self._walked = self._end_position

    def finish(self, files: FileSystem) -> bool:
        """Put the indexes into place, unless the segment was truncated or removed meanwhile.

        returns  False: so much was appended that `run` is due again
        raises   OSError
        """
        is_done = self._finish(files)
        if is_done:
            self.give_up()
        return is_done

    def give_up(self) -> None:
        """Nothing more will come of it; the next lookup that needs the indexes begins again."""
        self.segment.shared.end_rebuild(self.segment)

    def _finish(self, files: FileSystem) -> bool:
        segment, built = self.segment, self._built
        assert built is not None, "`run` comes first"
        if segment.truncation_count != self._truncation_count:
            return True
        if built.damage is not None:
            self._note_damage(built.damage)
            return True
        self._end_position = segment.size
        self._is_closed = not segment.is_ready
        if self._end_position - self._walked > REST_BYTES_MAX:
            return False
        try:
            self._walk(built)
        except CorruptBatch as error:
            self._note_damage(f"{segment.handle.path}: {error}")
            return True
        finally:
            built.handle.close()
        if self._is_closed:
            built.note_greatest()
            built.indexes.write()
        for index in (built.indexes.offsets, built.indexes.times):
            files.rename(index.path, index.path.removesuffix(SUFFIX))
        segment.take_indexes(built)
        return True

    def _note_damage(self, damage: str) -> None:
        segment = self.segment
        segment.note_damage(damage)
        event = StorageEvent(segment.handle.path, f"its indexes cannot be rebuilt: {damage}")
        segment.shared.report(event)
