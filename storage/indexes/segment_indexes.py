"""Offset and time index of one segment, which are made, loaded, truncated and replaced together.

The .log file is not read here; `Segment` rebuilds both when one of them is unusable.
"""

from __future__ import annotations

from odradek.storage.files import names
from odradek.storage.files.descriptors import Descriptors, Handle
from odradek.storage.indexes.index_file import CorruptIndex
from odradek.storage.indexes.offset_index import OffsetIndex
from odradek.storage.indexes.time_index import TimeIndex


class SegmentIndexes:
    """The two indexes of one segment."""

    __slots__ = ("_files", "offsets", "times")

    offsets: OffsetIndex
    times: TimeIndex

    def __init__(
        self, shared: Descriptors, directory: str, base_offset: int, *, suffix: str = ""
    ) -> None:
        """Nothing is read yet.

        suffix  of the file names, for indexes that are being rebuilt
        """
        self._files = shared.files
        prefix = f"{directory}/{names.file_name(base_offset, '')}"
        self.offsets = OffsetIndex(
            base_offset, Handle(shared, prefix + names.OFFSET_INDEX + suffix)
        )
        self.times = TimeIndex(base_offset, Handle(shared, prefix + names.TIME_INDEX + suffix))

    @property
    def is_loaded(self) -> bool:
        """Whether it is known what both files contain."""
        return self.offsets.is_loaded and self.times.is_loaded

    def load(self, log_bytes: int) -> None:
        """Load both indexes unless they are loaded.

        log_bytes  size of the .log file
        raises     CorruptIndex, OSError
        """
        if not self.offsets.is_loaded:
            self.offsets.load()
            try:
                self.offsets.check(log_bytes)
            except (CorruptIndex, OSError):
                self.offsets.unload()
                raise
        self.load_times()

    def load_times(self) -> None:
        """Load the time index unless it is loaded; raises CorruptIndex, OSError."""
        if not self.times.is_loaded:
            self.times.load()
            try:
                self.times.check()
            except (CorruptIndex, OSError):
                self.times.unload()
                raise

    def reset(self) -> None:
        """Empty, whatever the files hold."""
        self.offsets.reset()
        self.times.reset()

    def entries_before(self, end_offset: int) -> tuple[int, int]:
        """How many entries of each are below an offset; raises CorruptIndex, OSError."""
        return self.offsets.count_before(end_offset), self.times.count_before(end_offset)

    def truncate(self, counts: tuple[int, int]) -> None:
        """Keep that many entries of each; raises CorruptIndex, OSError."""
        self.offsets.truncate(self._files, counts[0])
        self.times.truncate(self._files, counts[1])
        self.times.note_newest()

    def write(self) -> None:
        """Bring the files up to what is in memory.

        raises  CorruptIndex: a file has lost entries; OSError: the next call goes on
        """
        self.offsets.write(self._files)
        self.times.write(self._files)

    def replace(self) -> None:
        """Make the files hold what is in memory, synced; raises OSError."""
        self.offsets.replace(self._files)
        self.times.replace(self._files)

    def remove_files(self) -> None:
        """Remove the files: without them the next start rebuilds the indexes; raises OSError."""
        for index in (self.offsets, self.times):
            if self._files.exists(index.path):
                self._files.remove(index.path)

    def take(self, built: SegmentIndexes) -> None:
        """Use indexes that were built in other files, which have the names of these now."""
        self.offsets.take(built.offsets)
        self.times.take(built.times)

    def close(self) -> None:
        """Close the files; the next lookup loads them again."""
        self.offsets.close()
        self.times.close()
