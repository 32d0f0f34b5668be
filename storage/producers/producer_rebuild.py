"""Makes the producer state of a truncated log again, in a thread.

It works on a copy of what the log was when it was truncated: names and sizes of the segments,
offsets of the snapshots.  The log takes no append meanwhile; retention may remove segments, and
compaction replace them under the same names, which makes the result void (`is_outdated`).
"""

from __future__ import annotations

from typing import Final

from odradek.runtime.files import FileSystem
from odradek.storage.events import StorageEvent
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.descriptors import Descriptors
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.producers.replay import recall, replay
from odradek.storage.producers.snapshot_files import SnapshotFiles
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segments import Segments

OPEN_MAX: Final = 8


class ProducerRebuild:
    """`run` in a thread, everything else on the loop."""

    def __init__(
        self,
        segments: Segments,
        snapshots: SnapshotFiles,
        end_offset: int,
        *,
        now_ms: int,
        expiration_ms: int,
    ) -> None:
        """now_ms, expiration_ms  as of `SnapshotFiles.load_newest`"""
        self._directory = segments.directory
        self._shared = segments.shared
        self._origins = [(segment, segment.truncation_count) for segment in segments]
        self._segments = [(segment.base_offset, segment.size) for segment in segments]
        self._snapshots = tuple(snapshots.offsets)
        self._end_offset = end_offset
        self.now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._events: list[StorageEvent] = []
        self.states = ProducerStates()
        """The result of `run`."""
        self.damage: str | None = None
        """What is wrong with a segment, unless `is_outdated`."""
        self._is_file_missing = False

    @property
    def is_outdated(self) -> bool:
        """Whether a segment was removed or replaced since: begin again."""
        return self._is_file_missing or any(
            segment.truncation_count != count for segment, count in self._origins
        )

    def run(self, files: FileSystem) -> None:
        """Load the newest snapshot and replay what follows it.

        raises  OSError
        cost    4 us a batch after the snapshot
        """
        # An index that is unusable is not rebuilt here: the segment is read from its start.
        shared = Descriptors(
            files,
            open_max=OPEN_MAX,
            report=self._events.append,
            rebuild_later=_ignore,
            is_read_only=True,
        )
        copies = [
            Segment(shared, self._directory, base_offset, size=size, created_ms=0)
            for base_offset, size in self._segments
        ]
        states = ProducerStates(copies[0].base_offset)
        snapshots = SnapshotFiles(files, self._directory, self._snapshots, self._events.append)
        try:
            segments = Segments(shared, self._directory, copies)
            has_snapshot = snapshots.load_newest(
                states, self._end_offset, now_ms=self.now_ms, expiration_ms=self._expiration_ms
            )
            if has_snapshot:
                recall(segments, states, self.now_ms)
            replay(segments, states, self._end_offset)
        except FileNotFoundError:
            self._is_file_missing = True
        except CorruptBatch as error:
            self.damage = str(error)
        finally:
            for copy in copies:
                copy.drop()
        self.states = states

    def report(self) -> None:
        """Report what `run` has met."""
        for event in self._events:
            self._shared.report(event)


def _ignore(segment: Segment, reason: str) -> None:
    pass
