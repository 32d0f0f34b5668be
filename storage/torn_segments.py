"""Finds where a crash has torn a log, and cuts it there.

The log is whole up to the first batch that is cut short, fails its checksum, lies outside of its
segment, does not follow the batch before it or has a lower leader epoch.  What is behind that goes,
later segments included.

Source: Kafka's LogLoader.recoverLog, LogSegment.recover.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from protocol.records.batch import RecordBatch, has_valid_crc
from storage.batch_scan import iterate_batches
from storage.leader_epochs import LeaderEpochs
from storage.log_config import LogConfig
from storage.plan import RELATIVE_OFFSET_MAX
from storage.producer_state import ProducerStates
from storage.replay import take_in
from storage.segment import Segment
from storage.snapshot_files import SnapshotFiles

_LEGACY_CRC_START: Final = 16
_LEGACY_BYTES_MIN: Final = 26


class UnsupportedFormat(OSError):
    """A segment that has to be checked holds batches of a format from before Kafka 0.11.

    The log cannot be used: to take them for torn would lose them.  Let the broker that wrote them
    stop cleanly; then nothing has to be checked.
    """


@dataclass(slots=True)
class Checker:
    """Goes through the segments that are not known to be whole, oldest first."""

    config: LogConfig
    epochs: LeaderEpochs
    states: ProducerStates
    """As of the base of the first segment."""
    snapshots: SnapshotFiles
    recovery_point: int
    """As the checkpoint on disk has it."""
    end_offset: int
    """Exclusive end of what is whole so far."""
    _newest_epoch: int = -1

    def run(self, segments: Sequence[Segment]) -> int:
        """Check them and make their indexes, snapshots and epochs anew.

        returns  how many of the segments remain, the last of them perhaps cut; the caller removes
                 the rest
        raises   UnsupportedFormat; OSError
        """
        self.snapshots.remove_above(segments[0].base_offset)
        if not self.config.cleanup_compact:
            # The batches tell; where some were compacted away, the checkpoint knows better.
            self.epochs.truncate_from_end(segments[0].base_offset)
        for number, segment in enumerate(segments):
            if number and not self._follows(segment.base_offset, self.end_offset):
                return number
            self.states.last_map_offset = segment.base_offset
            self.snapshots.write(self.states)
            if not self._check(segment):
                return number + 1
        self.snapshots.write(self.states)
        return len(segments)

    def _follows(self, base_offset: int, expected: int) -> bool:
        """Whether nothing is missing before `base_offset`; only compaction leaves holes rightly.

        Differs from Kafka: it takes any offset above the last one, so that a segment that a crash
        has emptied, or cut between two batches, leaves a hole in the log.
        """
        if self.config.cleanup_compact:
            return base_offset >= expected
        return base_offset == expected

    def _check(self, segment: Segment) -> bool:
        """Check one segment and cut it where it is torn; returns whether it was whole."""
        file = segment.handle.use()
        segment.reset_indexes()
        self.end_offset = segment.base_offset
        valid_bytes = 0
        for position, batch in iterate_batches(file, 0, segment.size):
            if not self._is_sound(segment, batch):
                break
            valid_bytes = position + batch.size
            self.end_offset = batch.next_offset
            self._take_in(segment, position, batch)
        is_whole = valid_bytes == segment.size
        if not is_whole:
            _refuse_old_format(segment, valid_bytes)
            file.truncate(valid_bytes)
            if self.end_offset <= self.recovery_point:
                file.sync()
            segment.size = valid_bytes
        if self.end_offset > self.recovery_point or segment.size == 0:
            segment.write_indexes(is_last=True)
        else:
            # If it is closed right here, the next check begins behind it.
            segment.replace_indexes()
        self.states.last_map_offset = self.end_offset
        return is_whole

    def _is_sound(self, segment: Segment, batch: RecordBatch) -> bool:
        return (
            batch.last_offset_delta >= 0
            and self._follows(batch.base_offset, self.end_offset)
            # Lower than before: a truncation was not on disk yet, but what came after it was.
            and batch.leader_epoch >= self._newest_epoch
            and batch.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
            and has_valid_crc(batch)
        )

    def _take_in(self, segment: Segment, position: int, batch: RecordBatch) -> None:
        segment.note_batch(
            position,
            batch.size,
            batch.last_offset,
            batch.max_timestamp_ms,
            self.config.index_interval_bytes,
        )
        self._newest_epoch = max(self._newest_epoch, batch.leader_epoch)
        if batch.leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        take_in(segment, self.states, batch, batch.base_offset)


def _refuse_old_format(segment: Segment, position: int) -> None:
    """Raise when an entry of an old format begins at `position`: then nothing is torn there."""
    file = segment.handle.use()
    size = int.from_bytes(file.read_at(position + 8, 4), "big", signed=True) + 12
    if not _LEGACY_BYTES_MIN <= size <= segment.size - position:
        return
    entry = file.read_at(position, size)
    if entry[_LEGACY_CRC_START] < 2 and zlib.crc32(entry[_LEGACY_CRC_START:]) == int.from_bytes(
        entry[12:16], "big"
    ):
        raise UnsupportedFormat(
            f"{segment.handle.path} holds message format {entry[_LEGACY_CRC_START]} at position "
            f"{position} and has to be checked after an unclean stop, which is not supported"
        )
