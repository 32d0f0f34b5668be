"""Checks the segments that an unclean stop may have torn, and truncates the log where it is torn.

Evidence of a tear is as in Kafka: bytes that are not a batch of a known format, a checksum that
differs, a last offset that cannot belong to the segment.  The rest of that segment is truncated,
and the caller removes the later ones.  Nothing else truncates: a log that was compacted once
has gaps between its offsets for ever, and a directory that another cluster wrote may have leader
epochs that fall.  Such batches stay and are reported.

Differs from Kafka: batches whose offsets repeat earlier ones stay (Kafka empties the segment when
an index entry falls on one), and so do batches more than 2^31 above the base of their segment
(Kafka splits the segment); both get no index entry, and what repeats does not count for producers
and their transactions.

Source: Kafka's LogLoader.recoverLog, LogSegment.recover.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import RecordBatch, has_valid_crc
from odradek.storage.checkpoints.leader_epochs import EpochEntry, LeaderEpochs
from odradek.storage.events import Report, StorageEvent
from odradek.storage.files.batch_scan import iterate_batches
from odradek.storage.files.disk_errors import is_full
from odradek.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.producers.replay import apply_batch
from odradek.storage.producers.snapshot_files import SnapshotFiles
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segment_gaps import SegmentGap

_LEGACY_CRC_START: Final = 16
_LEGACY_BYTES_MIN: Final = 26
_OFFSET_MAX: Final = 2**63 - 2
_NO_INDEX_ENTRY: Final = 2**63 - 1
"""An interval between index entries with which none is due."""


class UnsupportedFormat(OSError):
    """A segment that has to be checked holds batches of a format from before Kafka 0.11.

    The log cannot be used: to take them for torn would lose them.  Let the broker that wrote them
    stop cleanly; then nothing has to be checked.
    """


@dataclass(slots=True)
class CheckedAmount:
    """What was checked after an unclean stop, of one log or of all those of a directory."""

    logs: int = 0
    segments: int = 0
    size_bytes: int = 0
    truncated_bytes: int = 0
    """Part of `size_bytes`, and the bytes of later segments that were removed unchecked."""

    def end_log(self, removed_bytes: int) -> None:
        """One log was checked; `removed_bytes` are those of its segments after a torn one."""
        self.logs += 1
        self.truncated_bytes += removed_bytes


@dataclass(slots=True)
class _Unusual:
    """What was kept although it is unusual, for one report per log."""

    gaps: int = 0
    missing_offsets: int = 0
    first_gap: int = -1
    repeated: int = 0
    out_of_range: int = 0
    falling_epochs: int = 0
    first_fall: tuple[int, int, int] = (0, 0, 0)
    """Offset, epoch of the batch there, greatest epoch before it."""


class _EpochClaims(NamedTuple):
    """The checkpoint's epochs in the checked part, compared with the batches.

    The checkpoint is not synced at each change, so it may contain an epoch that a truncation has
    removed; but where compaction has removed the first batches of an epoch, only the checkpoint
    contains its start.  So its entries stay unless a batch contradicts them.
    """

    epochs: LeaderEpochs
    claimed: deque[EpochEntry]

    @classmethod
    def take(cls, epochs: LeaderEpochs, start_offset: int) -> _EpochClaims:
        """Take the entries from `start_offset` on out of `epochs`."""
        claimed = deque(entry for entry in epochs.entries if entry.start_offset >= start_offset)
        epochs.truncate_from_end(start_offset)
        return cls(epochs, claimed)

    def note(self, batch: RecordBatch, end_offset: int) -> None:
        """A batch follows; `end_offset` is where the ones before it end."""
        epoch, epochs = batch.leader_epoch, self.epochs
        if epoch < 0:
            return
        while self.claimed and self.claimed[0].start_offset <= batch.base_offset:
            entry = self.claimed.popleft()
            if entry.start_offset >= end_offset and epochs.latest_epoch < entry.epoch <= epoch:
                epochs.assign(entry.epoch, entry.start_offset)
        if epoch > epochs.latest_epoch:
            epochs.assign(epoch, batch.base_offset)


@dataclass(slots=True)
class Checker:
    """Checks the segments that are not known to be whole, oldest first."""

    config: LogConfig
    epochs: LeaderEpochs
    states: ProducerStates
    """The state at the base of the first segment."""
    snapshots: SnapshotFiles
    recovery_point: int
    """The recovery point in the checkpoint on disk."""
    first_dirty_offset: int
    """Nothing from here on has been compacted; 0: nothing at all, or it is not known."""
    end_offset: int
    """Exclusive end of what is whole so far."""
    report: Report
    amount: CheckedAmount
    segment_gaps: list[SegmentGap] = field(default_factory=list)
    """Between a segment and the base of the next one, where this broker has not compacted."""
    last_end_offset: int = -1
    """Where the last batch ends, or the base of an empty last segment; at most `end_offset`."""
    _newest_epoch: int = -1
    _batches_end: int = 0
    """Where the batches so far end; `end_offset` counts the base of a segment too."""
    _unusual: _Unusual = field(default_factory=_Unusual)

    def run(self, segments: Sequence[Segment]) -> int:
        """Check them and rebuild their indexes, snapshots and epochs.

        On a full disk indexes and snapshots are not written, but rebuilt when needed.

        returns  how many of the segments remain, the last one perhaps truncated; the caller removes
                 the rest
        raises   UnsupportedFormat; OSError
        """
        self.snapshots.remove_above(segments[0].base_offset)
        claims = _EpochClaims.take(self.epochs, segments[0].base_offset)
        self._batches_end = segments[0].base_offset
        kept = 0
        for segment in segments:
            self._write_snapshot(segment.base_offset)
            kept += 1
            if not self._check(segment, claims):
                break
        self._write_snapshot(self.end_offset)
        self._report_unusual(segments[0].directory)
        return kept

    def _check(self, segment: Segment, claims: _EpochClaims) -> bool:
        """Check one segment and truncate it where it is torn; returns whether it was whole."""
        file = segment.handle.use()
        segment.reset_indexes()
        self._note_segment_gap(segment.base_offset)
        self._note_gap(segment.base_offset)
        self.last_end_offset = indexed_end = segment.base_offset
        valid_bytes = 0
        flaw: str | None = None
        for position, batch in iterate_batches(file, 0, segment.size):
            flaw = flaw_of(segment.base_offset, batch)
            if flaw is not None:
                break
            valid_bytes = position + batch.size
            next_offset = batch.next_offset
            if claims.claimed or batch.leader_epoch != self._newest_epoch:
                claims.note(batch, self._batches_end)
            if batch.base_offset != self.end_offset or batch.leader_epoch < self._newest_epoch:
                self._note_unusual(batch)
            self._newest_epoch = max(self._newest_epoch, batch.leader_epoch)
            indexed_end = self._take_in(segment, position, batch, indexed_end)
            self.last_end_offset = next_offset
            self._batches_end = max(self._batches_end, next_offset)
            self.end_offset = max(self.end_offset, next_offset)
        amount = self.amount
        amount.segments += 1
        amount.size_bytes += segment.size
        is_whole = valid_bytes == segment.size
        if not is_whole:
            _refuse_old_format(segment, valid_bytes)
            amount.truncated_bytes += segment.size - valid_bytes
            self._truncate(segment, valid_bytes, flaw or "no whole batch follows")
        self._write_indexes(segment)
        self.states.advance_to(self.end_offset)
        return is_whole

    def _truncate(self, segment: Segment, valid_bytes: int, flaw: str) -> None:
        self.report(
            StorageEvent(
                segment.handle.path,
                f"torn at byte {valid_bytes}: {flaw}; {segment.size - valid_bytes} of "
                f"{segment.size} bytes are truncated, the log ends at offset {self.end_offset}",
            )
        )
        segment.truncate_torn(valid_bytes, is_synced=self.end_offset <= self.recovery_point)

    def _write_indexes(self, segment: Segment) -> None:
        try:
            if self.end_offset > self.recovery_point or segment.size == 0:
                segment.write_indexes(is_last=True)
            else:
                # If it is closed right here, the next check begins after it.
                segment.replace_indexes()
        except OSError as error:
            # A transaction index cannot be rebuilt later.  A part of the others would pass for the
            # whole, and retention would take the segment for older than it is: no file is better.
            if not is_full(error) or len(segment.aborted):
                raise
            segment.indexes.remove_files()
            segment.indexes.close()

    def _write_snapshot(self, offset: int) -> None:
        try:
            self.snapshots.write(self.states, offset)
        except OSError as error:
            if not is_full(error):
                raise

    def _take_in(
        self, segment: Segment, position: int, batch: RecordBatch, indexed_end: int
    ) -> int:
        """Index, producers; returns the end of what index entries may name."""
        last_offset = batch.last_offset
        interval_bytes = self.config.index_interval_bytes
        highest = segment.base_offset + RELATIVE_OFFSET_MAX
        is_repeated = batch.base_offset < indexed_end
        if is_repeated or last_offset > highest:
            self._unusual.out_of_range += last_offset > highest
            last_offset = min(max(last_offset, indexed_end - 1, segment.base_offset), highest)
            interval_bytes = _NO_INDEX_ENTRY
        segment.note_batch(
            position, batch.size, last_offset, batch.max_timestamp_ms, interval_bytes
        )
        try:
            if not is_repeated:
                apply_batch(segment, self.states, batch, batch.base_offset)
        except BrokerError as error:
            # Its checksum fits, so it was written like this; the producer's state does not know it.
            self.report(StorageEvent(segment.handle.path, f"a marker cannot be read: {error}"))
        return max(indexed_end, last_offset + 1)

    def _note_segment_gap(self, base_offset: int) -> None:
        """A power cut leaves no other gap: within a segment, what is missing fails its checksum.

        What a follower copied of a compacted log has such gaps too: it asks its leader.
        """
        if base_offset > self.end_offset >= self.first_dirty_offset:
            self.segment_gaps.append(SegmentGap(self.end_offset, base_offset))

    def _note_gap(self, next_offset: int) -> None:
        if next_offset > self.end_offset:
            unusual = self._unusual
            if not unusual.gaps:
                unusual.first_gap = self.end_offset
            unusual.gaps += 1
            unusual.missing_offsets += next_offset - self.end_offset
            self.end_offset = next_offset

    def _note_unusual(self, batch: RecordBatch) -> None:
        self._note_gap(batch.base_offset)
        unusual = self._unusual
        unusual.repeated += batch.base_offset < self.end_offset
        if 0 <= batch.leader_epoch < self._newest_epoch:
            if not unusual.falling_epochs:
                unusual.first_fall = (batch.base_offset, batch.leader_epoch, self._newest_epoch)
            unusual.falling_epochs += 1

    def _report_unusual(self, directory: str) -> None:
        unusual = self._unusual
        if unusual.gaps:
            self.report(
                StorageEvent(
                    directory,
                    f"{unusual.missing_offsets} offsets are missing in {unusual.gaps} gaps, the "
                    f"first at {unusual.first_gap}: compacted, or lost with a whole segment",
                    is_warning=bool(self.segment_gaps) or not self.config.cleanup_compact,
                )
            )
        if unusual.repeated:
            self.report(
                StorageEvent(
                    directory, f"{unusual.repeated} batches repeat offsets of earlier ones; kept"
                )
            )
        if unusual.out_of_range:
            self.report(
                StorageEvent(
                    directory,
                    f"{unusual.out_of_range} batches are too far above the base of their segment "
                    "to be indexed; kept",
                )
            )
        if unusual.falling_epochs:
            offset, epoch, former = unusual.first_fall
            self.report(
                StorageEvent(
                    directory,
                    f"{unusual.falling_epochs} batches have a lower leader epoch than earlier "
                    f"ones, the first at offset {offset}: {epoch} after {former}; kept",
                )
            )


def flaw_of(segment_base_offset: int, batch: RecordBatch) -> str | None:
    """What shows that a batch was not written whole, None when nothing does."""
    base_offset, last_offset = batch.base_offset, batch.last_offset
    if not 0 <= base_offset <= last_offset <= _OFFSET_MAX or last_offset < segment_base_offset:
        return f"the batch there claims offsets {base_offset} to {last_offset}"
    return None if has_valid_crc(batch) else "the checksum of the batch there differs"


def old_format_at(segment: Segment, position: int) -> int | None:
    """Bytes of the entry of a format before version 2 that begins at `position`.

    returns  None when there is none that is whole, its checksum included
    """
    file = segment.handle.use()
    size = int.from_bytes(file.read_at(position + 8, 4), "big", signed=True) + 12
    if not _LEGACY_BYTES_MIN <= size <= segment.size - position:
        return None
    entry = file.read_at(position, size)
    is_valid = entry[_LEGACY_CRC_START] < 2 and zlib.crc32(
        entry[_LEGACY_CRC_START:]
    ) == int.from_bytes(entry[12:16], "big")
    return size if is_valid else None


def _refuse_old_format(segment: Segment, position: int) -> None:
    """Raise when an entry of an old format begins at `position`: then nothing is torn there."""
    if old_format_at(segment, position) is not None:
        magic = segment.handle.use().read_at(position + _LEGACY_CRC_START, 1)[0]
        raise UnsupportedFormat(
            f"{segment.handle.path} holds message format {magic} at position "
            f"{position} and has to be checked after an unclean stop, which is not supported"
        )
