"""The producer snapshots in a partition's folder: which there are, loading, writing, removing.

Source: Kafka's ProducerStateManager (loadFromSnapshot, takeSnapshot, removeStraySnapshots).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from contextlib import closing

from odradek.runtime.files import FileSystem
from odradek.storage.events import Report, StorageEvent, ignore
from odradek.storage.files import names
from odradek.storage.producers.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
)
from odradek.storage.producers.producer_state import ProducerStates


class SnapshotFiles:
    """The snapshots of one log, known by their offsets."""

    __slots__ = ("_directory", "_files", "_report", "offsets")

    offsets: list[int]
    """Ascending; the state below each of them is in a file."""

    def __init__(
        self, files: FileSystem, directory: str, offsets: Sequence[int], report: Report = ignore
    ) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        """Path of the snapshot at `offset`."""
        return f"{self._directory}/{names.file_name(offset, names.SNAPSHOT)}"

    def load_newest(
        self, states: ProducerStates, end_offset: int, *, now_ms: int, expiration_ms: int
    ) -> bool:
        """Set `states` to the newest readable snapshot at or below `end_offset`.

        Unreadable ones on the way are removed and reported.

        returns  False when there is none; `states` is as before then
        raises   OSError
        """
        while (count := bisect_right(self.offsets, end_offset)) > 0:
            offset = self.offsets[count - 1]
            try:
                entries = decode_snapshot(self._files.read(self.path(offset)))
            except (CorruptSnapshot, FileNotFoundError) as error:
                self._report(
                    StorageEvent(self.path(offset), f"removed, the one before it is used: {error}")
                )
                self.remove(offset)
                continue
            states.load(entries, offset, now_ms=now_ms, expiration_ms=expiration_ms)
            return True
        return False

    def write(self, states: ProducerStates, offset: int) -> None:
        """Write the state below `offset`, not synced; nothing when there is one as new.

        raises  OSError; a part of the file may be there, which its checksum reveals
        """
        if offset <= (self.offsets[-1] if self.offsets else 0):
            return
        with closing(self._files.open(self.path(offset), create=True)) as file:
            if file.size():
                file.truncate(0)
            file.append((encode_snapshot(states.entries.values()),))
        insort(self.offsets, offset)

    def remove(self, offset: int) -> None:
        """Remove one; raises OSError."""
        self.offsets.remove(offset)
        self._remove_file(offset)

    def _remove_file(self, offset: int) -> None:
        path = self.path(offset)
        if self._files.exists(path):
            self._files.remove(path)

    def remove_above(self, end_offset: int) -> None:
        """Remove those above `end_offset`; raises OSError."""
        while self.offsets and self.offsets[-1] > end_offset:
            self._remove_file(self.offsets.pop())

    def remove_all(self) -> None:
        """Remove every one; raises OSError."""
        self.remove_above(-1)

    def remove_strays(self, base_offsets: Sequence[int]) -> None:
        """Keep one for each segment, and the newest one above the last segment's base.

        raises  OSError
        """
        bases = dict.fromkeys(base_offsets)
        newest = self.offsets[-1] if self.offsets else -1
        for offset in tuple(self.offsets):
            is_newest_of_all = offset == newest and offset > base_offsets[-1]
            if offset not in bases and not is_newest_of_all:
                self.remove(offset)

    def rename_to_deleted(self, offset: int, paths: list[str]) -> None:
        """Rename the snapshot of a deleted segment, if there is one; `paths` grows by its name now.

        raises  OSError
        """
        if offset in self.offsets:
            path = self.path(offset)
            self._files.rename(path, path + names.DELETED)
            self.offsets.remove(offset)
            paths.append(path + names.DELETED)
