"""The place of a log where batches are appended: its active segment and what appending changes.

Owns the log end offset, the producer state, the leader epochs, the limits up to which the active
segment is appended to, and whether the log is offline.  Three ways to append:

    append_plain          one plain batch, the most frequent case
    append_plain_batches  several plain batches with one write
    log/appending         any batches, as leader or follower; it uses the primitives below

Plain means: no control batch, a leader epoch that is known, the active segment need not be rolled,
and the producer state accepts the batch.  For a batch that is not plain the methods return None and
nothing has changed but the offset and epoch in the batch's memory, which the next way sets again.

State changes only after the write that it depends on has succeeded.

Source: Kafka's LocalLog.append, UnifiedLog.append.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import CONTROL, LOG_APPEND_TIME, RecordBatch, assign_offset
from odradek.runtime.files import Bytes
from odradek.storage.events import StorageEvent
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.files.disk_errors import is_full
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.rolling import (
    NextBatch,
    RollLimits,
    RollReason,
    SegmentStats,
    roll_jitter_ms,
    roll_reason,
)
from odradek.storage.log.tail import KEPT_MAX, Tail
from odradek.storage.log_config import LogConfig
from odradek.storage.producers.producer_rebuild import ProducerRebuild
from odradek.storage.producers.producer_state import (
    Duplicate,
    ProducerEntry,
    ProducerStates,
    check_append,
    entry_after,
)
from odradek.storage.producers.replay import apply_batch
from odradek.storage.recovery.log_loader import LoadedLog


@dataclass(slots=True)
class Appended:
    """Where a batch was stored."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic's timestamps are those of the append."""
    log_start_offset: int
    is_duplicate: bool
    """It had been appended before; the offsets are those of that append."""


class Head:
    """Appends batches to the active segment of one log."""

    __slots__ = (
        "_directory",
        "_jitter_ms",
        "_partition",
        "_shared",
        "_topic",
        "config",
        "end_offset",
        "epochs",
        "is_offline",
        "is_truncating",
        "leader_epochs",
        "limits",
        "producer_states",
        "segments",
        "snapshots",
        "tail",
    )

    config: LogConfig
    """`configure` replaces it."""
    end_offset: int
    """Log end offset, exclusive: the offset of the next record."""
    is_offline: bool
    """The disk has failed and what the log's files contain is unknown; only a restart helps."""
    is_truncating: bool
    """A truncation waits for the disk or for the producer state: nothing may be appended yet."""

    def __init__(self, loaded: LoadedLog, topic: str, partition: int, config: LogConfig) -> None:
        self.segments = loaded.segments
        self._shared = loaded.segments.shared
        self._directory = loaded.segments.directory
        self._topic = topic
        self._partition = partition
        self.config = config
        self.end_offset = loaded.end_offset
        self.epochs = loaded.epochs
        self.leader_epochs = loaded.epochs.epochs
        """The epochs of `epochs`, read on every append."""
        self.producer_states = loaded.producer_states
        self.snapshots = loaded.snapshots
        self.is_offline = False
        self.is_truncating = False
        self.limits = RollLimits()
        self.tail = Tail(self.end_offset)
        self._on_new_active()

    def configure(self, config: LogConfig) -> None:
        """Replace the settings; they take effect with the next append."""
        self.config = config
        self._on_new_active()

    def replace_producers(self, states: ProducerStates) -> None:
        """Use producer states that were rebuilt, or those of the log whose copy this one is."""
        self.producer_states = states

    def _on_new_active(self) -> None:
        """After a change of the active segment, or of the settings."""
        self._jitter_ms = roll_jitter_ms(
            self.config, self._topic, self._partition, self.segments.active.base_offset
        )
        self._update_limits()

    def _update_limits(self) -> None:
        self.limits.update(
            self.segments.active,
            self.config,
            jitter_ms=self._jitter_ms,
            is_closed=self.is_offline or self.is_truncating,
        )

    def go_offline(self) -> None:
        """Refuse all appends until a restart."""
        self.is_offline = True
        self._update_limits()

    # Plain batches.

    def append_plain(
        self, batch: RecordBatch, leader_epoch: int, log_start_offset: int
    ) -> Appended | BrokerError | None:
        """Append one batch; None when it is not plain.

        cost  1.2 us and the write without a producer id, 2.4 us with one
        """
        segment, limits = self.segments.active, self.limits
        position, base_offset, size = segment.size, self.end_offset, batch.size
        last_offset = base_offset + batch.last_offset_delta
        max_timestamp_ms = batch.max_timestamp_ms
        producer_id = batch.producer_id
        attributes = batch.attributes
        if (
            position + size > limits.size_bytes
            or max_timestamp_ms > limits.age_ms
            or last_offset > limits.offset
            or leader_epoch != self.leader_epochs.latest_epoch
            or attributes & CONTROL
            or (producer_id >= 0 and batch.base_sequence < 0)
        ):
            return None
        if producer_id >= 0:
            try:
                duplicate = check_append(self.producer_states.entries.get(producer_id), batch)
            except BrokerError as error:
                return error
            if duplicate is not None:
                return duplicate_of(duplicate, log_start_offset)
        view = batch.view
        assign_offset(view, base_offset, leader_epoch)
        try:
            has_index_entry = segment.append(
                view, size, last_offset, max_timestamp_ms, limits.index_interval_bytes
            )
        except OSError as error:
            return self._undo_write(error)
        tail = self.tail
        tail.positions.append(position)
        tail.last_offsets.append(last_offset)
        self.end_offset = last_offset + 1
        if producer_id >= 0:
            self.producer_states.apply(batch, base_offset)
        if len(tail.positions) > KEPT_MAX:
            tail.trim()
        if has_index_entry and limits.count_index_entry():
            self.settle()
        return Appended(
            base_offset,
            last_offset,
            max_timestamp_ms if attributes & LOG_APPEND_TIME else -1,
            log_start_offset,
            False,
        )

    def append_plain_batches(
        self, batches: Sequence[RecordBatch], leader_epoch: int, log_start_offset: int
    ) -> list[Appended | BrokerError] | None:
        """Append several batches with one write; None when one of them is not plain.

        cost  1 us a batch without a producer id, 2.5 us with one, and the write
        """
        if leader_epoch != self.leader_epochs.latest_epoch:
            return None
        segment = self.segments.active
        base_offset = offset = self.end_offset
        newest_ms = -1
        size = 0
        entries: dict[int, ProducerEntry] = {}
        for batch in batches:
            if batch.attributes & CONTROL:
                return None
            if batch.producer_id >= 0 and not self._is_in_sequence(batch, offset, entries):
                return None
            if batch.max_timestamp_ms > newest_ms:
                newest_ms = batch.max_timestamp_ms
            assign_offset(batch.view, offset, leader_epoch)
            offset += batch.last_offset_delta + 1
            size += batch.size
        if not self.limits.allow(segment.size + size, offset - 1, newest_ms, len(batches) - 1):
            return None
        position = segment.size
        try:
            segment.append_batches(batches, base_offset, self.limits.index_interval_bytes)
        except OSError as error:
            return [self._undo_write(error)] * len(batches)
        return self._take_over(batches, position, log_start_offset)

    def _is_in_sequence(
        self, batch: RecordBatch, offset: int, entries: dict[int, ProducerEntry]
    ) -> bool:
        """Whether the producer may append it, given what else it appends in the same write."""
        producer_id = batch.producer_id
        if batch.base_sequence < 0:
            return False
        entry = entries.get(producer_id) or self.producer_states.entries.get(producer_id)
        try:
            if check_append(entry, batch) is not None:
                return False
        except BrokerError:
            return False
        entries[producer_id] = entry_after(entry, batch, offset)
        return True

    def _take_over(
        self, batches: Sequence[RecordBatch], position: int, log_start_offset: int
    ) -> list[Appended | BrokerError]:
        """Account for plain batches that were written from `position` on."""
        positions, last_offsets = self.tail.positions, self.tail.last_offsets
        offset = self.end_offset
        results: list[Appended | BrokerError] = []
        for batch in batches:
            last_offset = offset + batch.last_offset_delta
            positions.append(position)
            last_offsets.append(last_offset)
            position += batch.size
            if batch.producer_id >= 0:
                self.producer_states.apply(batch, offset)
            append_time_ms = batch.max_timestamp_ms if batch.attributes & LOG_APPEND_TIME else -1
            results.append(Appended(offset, last_offset, append_time_ms, log_start_offset, False))
            offset = last_offset + 1
        self.end_offset = offset
        self.settle()
        return results

    # Primitives of log/appending.

    def ensure_ready(self) -> None:
        """Load what the active segment needs to be appended to.

        raises  OSError; BrokerError KAFKA_STORAGE_ERROR (an index is being rebuilt),
                CORRUPT_MESSAGE (the segment is damaged)
        """
        segment = self.segments.active
        if segment.is_ready:
            return
        try:
            segment.get_ready()
        except IndexUnready as error:
            # Producers do not retry after its own code.
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, error.message) from error
        except CorruptBatch as error:
            path = segment.handle.path
            self._shared.report(StorageEvent(path, f"no append: {error}"))
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{path}: {error}") from error
        self._on_new_active()

    def roll_reason(
        self,
        batch: RecordBatch,
        last_offset: int,
        now_ms: int,
        *,
        waiting: Sequence[RecordBatch] = (),
        waiting_bytes: int = 0,
    ) -> RollReason | None:
        """`rolling.roll_reason` for the active segment and the batches that wait to be written.

        Each batch that waits counts as an index entry, so a reason may be returned too early: write
        what waits and ask again.
        """
        segment = self.segments.active
        first_timestamp_ms = segment.first_timestamp_ms
        if segment.size == 0 and waiting:
            first_timestamp_ms = waiting[0].max_timestamp_ms
        stats = SegmentStats(
            base_offset=segment.base_offset,
            size_bytes=segment.size + waiting_bytes,
            first_timestamp_ms=first_timestamp_ms,
            created_ms=segment.created_ms,
            jitter_ms=self._jitter_ms,
            is_index_full=segment.index_entries_left(self.config) <= len(waiting),
        )
        coming = NextBatch(
            size_bytes=batch.size, last_offset=last_offset, max_timestamp_ms=batch.max_timestamp_ms
        )
        return roll_reason(stats, self.config, coming, now_ms)

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Close the active segment and create one at `base_offset` (at least the log end offset).

        raises  OSError; the log is as before, some files of the new segment may exist
        """
        former = self.segments.active
        base_offset = max(base_offset, self.end_offset)
        if former.base_offset == base_offset:
            # An empty segment that its settings call full (KAFKA-6388).
            return
        self.ensure_ready()
        former.write_indexes(is_last=True)
        self.snapshots.write(self.producer_states, base_offset)
        self.segments.add(base_offset, created_ms=now_ms)
        self.end_offset = base_offset
        self.tail.reset(base_offset)
        self._on_new_active()

    def write(self, chunks: Sequence[Bytes]) -> None:
        """Write whole batches at the end of the active segment; `commit` accounts for each.

        raises  BrokerError KAFKA_STORAGE_ERROR; the write was undone, or the log is offline
        """
        try:
            self.segments.active.write(chunks)
        except OSError as error:
            raise self._undo_write(error) from error

    def commit(self, batch: RecordBatch, base_offset: int) -> None:
        """Account for the next batch that was written; `settle` after the last one."""
        segment = self.segments.active
        last_offset = base_offset + batch.last_offset_delta
        self.tail.positions.append(segment.size)
        self.tail.last_offsets.append(last_offset)
        segment.note_written(
            batch.size, last_offset, batch.max_timestamp_ms, self.limits.index_interval_bytes
        )
        self.end_offset = last_offset + 1
        if batch.producer_id >= 0:
            apply_batch(segment, self.producer_states, batch, base_offset)

    def settle(self) -> None:
        """After commits: update limits, and write index entries to their files when many wait."""
        if len(self.tail.positions) > KEPT_MAX:
            self.tail.trim()
        self._update_limits()
        segment = self.segments.active
        if segment.has_much_to_write():
            # What cannot be written now is written with the next entries, or when the segment is
            # closed; after a crash before that, it is rebuilt.
            with contextlib.suppress(OSError):
                segment.write_indexes(is_last=False)

    def _undo_write(self, error: OSError) -> BrokerError:
        """Truncate what a failed write may have left; returns the error of the append.

        The log goes offline when that fails too: what its file contains is unknown then.
        """
        segment = self.segments.active
        if segment.handle.file is not None:  # Else it could not be opened: nothing was written.
            try:
                segment.handle.use().truncate(segment.size)
            except OSError:
                self.go_offline()
        return self.storage_error(error)

    def storage_error(self, error: OSError) -> BrokerError:
        """KAFKA_STORAGE_ERROR for an append that the disk refused; reported for the operator."""
        self._shared.report(
            StorageEvent(
                self._directory, f"no batch was appended: {error}", is_out_of_space=is_full(error)
            )
        )
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    # Truncation and clean stop.

    def on_truncated(self, end_offset: int) -> None:
        """The segments end at `end_offset` now; `ensure_ready` before the next append."""
        self.end_offset = end_offset
        self.tail.reset(end_offset)
        self._on_new_active()

    def truncate_producers(self, now_ms: int) -> ProducerRebuild | None:
        """After a truncation: drop the snapshots above the log end offset.

        returns  how to make the producer state again; None when no producer wrote what was dropped
        raises   OSError
        """
        self.snapshots.remove_above(self.end_offset)
        if not self.producer_states.truncate_tail(self.end_offset):
            return None
        return self.rebuild_producers(now_ms)

    def rebuild_producers(self, now_ms: int) -> ProducerRebuild:
        """Make the producer state from what the log is now."""
        return ProducerRebuild(
            self.segments,
            self.snapshots,
            self.end_offset,
            now_ms=now_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
        )

    def set_truncating(self, is_truncating: bool) -> None:
        """Close the log for appends, or open it again."""
        self.is_truncating = is_truncating
        self._update_limits()

    def write_all(self) -> None:
        """Complete the indexes of the active segment and write the producer state.

        raises  OSError
        """
        segment = self.segments.active
        if segment.is_ready:
            segment.write_indexes(is_last=True)
        self.snapshots.write(self.producer_states, self.end_offset)


def duplicate_of(duplicate: Duplicate, log_start_offset: int) -> Appended:
    """The result for a batch that was appended before."""
    return Appended(
        duplicate.base_offset, duplicate.last_offset, duplicate.timestamp_ms, log_start_offset, True
    )
