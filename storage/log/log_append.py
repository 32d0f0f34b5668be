"""Appending the long way: several batches, rolling, what a leader sent.

The batches of one call are gathered and written with one `File.append` for each segment they go to.
While they wait, the producers' state is kept in an overlay; the log's own state changes when they
are in the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    CONTROL,
    RecordBatch,
    assign_offset,
    has_valid_crc,
    parse_batch,
    whole_batch_size,
)
from odradek.storage.events import StorageEvent
from odradek.storage.files.batch_scan import CorruptBatch
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.log.plan import NextBatch, RollReason, SegmentStats, roll_reason
from odradek.storage.log.tail import KEPT_MAX
from odradek.storage.producers.producer_state import (
    Duplicate,
    ProducerEntry,
    check_append,
    check_coordinator_append,
    entry_after,
)
from odradek.storage.producers.replay import take_in
from odradek.storage.segments.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log.log import Appended, Log


def append_batches(
    log: Log, batches: Sequence[RecordBatch], leader_epoch: int, now_ms: int
) -> list[Appended | BrokerError]:
    """`Log.append` for any number of batches."""
    assert leader_epoch >= log.leader_epochs.latest_epoch, "a leader epoch fell"
    gather = _Gather(log, leader_epoch, len(batches), now_ms)
    for number, batch in enumerate(batches):
        gather.add(number, batch)
    gather.write()
    return [result for result in gather.results if result is not None]


class _Gather:
    """Batches on their way into one segment."""

    __slots__ = (
        "_batches",
        "_dependent",
        "_entries",
        "_leader_epoch",
        "_log",
        "_next_offset",
        "_now_ms",
        "_size",
        "results",
    )

    results: list[Appended | BrokerError | None]
    """One per batch of the call; None until it is known."""

    def __init__(self, log: Log, leader_epoch: int, count: int, now_ms: int) -> None:
        self._log = log
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self.results = [None] * count
        self._batches: list[tuple[int, RecordBatch, int]] = []  # number, batch, base offset
        self._dependent: list[int] = []  # duplicates of batches that wait
        self._entries: dict[int, ProducerEntry] = {}
        self._next_offset = log.end_offset
        self._size = 0

    def add(self, number: int, batch: RecordBatch) -> None:
        """Take in the next batch, or note why not."""
        log = self._log
        try:
            if log.is_offline:
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory} is offline")
            if batch.size > log.config.segment_bytes:
                raise BrokerError(
                    ErrorCode.RECORD_LIST_TOO_LARGE,
                    f"{batch.size} bytes are more than the {log.config.segment_bytes} of a segment",
                )
            last_offset = self._next_offset + batch.last_offset_delta
            size = log.active.size + self._size + batch.size
            waiting_count = len(self._batches)
            if not log.limits.allow(size, last_offset, batch.max_timestamp_ms, waiting_count):
                self._make_room(batch)
            # Only now: making room may have written what waits, and failed.
            if batch.producer_id >= 0:
                duplicate = self._check_producer(batch)
                if duplicate is not None:
                    self.results[number] = log.answer(*duplicate, batch, is_duplicate=True)
                    if duplicate.last_offset >= log.end_offset:
                        self._dependent.append(number)
                    return
        except BrokerError as error:
            self.results[number] = error
            return
        base_offset = self._next_offset
        assign_offset(batch.view, base_offset, self._leader_epoch)
        self._batches.append((number, batch, base_offset))
        self._next_offset = base_offset + batch.last_offset_delta + 1
        self._size += batch.size
        if batch.attributes & CONTROL:
            self.write()
        elif batch.producer_id >= 0:
            entry = self._entry(batch.producer_id)
            self._entries[batch.producer_id] = entry_after(entry, batch, base_offset)

    def _entry(self, producer_id: int) -> ProducerEntry | None:
        entry = self._entries.get(producer_id)
        return entry or self._log.producer_states.entries.get(producer_id)

    def _check_producer(self, batch: RecordBatch) -> Duplicate | None:
        entry = self._entry(batch.producer_id)
        # Clients cannot send either: the checks before an append refuse both.
        if batch.attributes & CONTROL or batch.base_sequence < 0:
            check_coordinator_append(entry, batch)
            return None
        return check_append(entry, batch, from_client=True)

    def _make_room(self, batch: RecordBatch) -> None:
        """Roll before `batch` when a rule says so; what waits is written first."""
        if self._roll_reason(batch) is None:
            return
        self.write()
        if self._roll_reason(batch) is not None:
            try:
                roll(self._log, self._log.end_offset, self._now_ms)
            except OSError as error:
                raise storage_error(self._log, error) from error
            self._next_offset = self._log.end_offset

    def _roll_reason(self, batch: RecordBatch) -> RollReason | None:
        log = self._log
        try:
            ensure_ready(log)
        except OSError as error:
            raise storage_error(log, error) from error
        return why_roll(
            log,
            batch,
            self._next_offset + batch.last_offset_delta,
            self._now_ms,
            waiting=[batch for _, batch, _ in self._batches],
            waiting_bytes=self._size,
        )

    def write(self) -> None:
        """Write what waits and take it into the log's state."""
        waiting, dependent = self._batches, self._dependent
        if not waiting:
            return
        self._batches, self._dependent, self._entries, self._size = [], [], {}, 0
        log = self._log
        segment = log.active
        try:
            segment.handle.use().append([batch.view for _, batch, _ in waiting])
        except OSError as error:
            failure = undo_write(log, error)
            for number in (*(number for number, _, _ in waiting), *dependent):
                self.results[number] = failure
            self._next_offset = log.end_offset
            return
        if self._leader_epoch != log.leader_epochs.latest_epoch:
            log.assign_epoch(self._leader_epoch, log.end_offset)
        results = self.results
        for number, batch, base_offset in waiting:
            commit(log, segment, batch, base_offset)
            results[number] = log.answer(
                base_offset, base_offset + batch.last_offset_delta, batch.max_timestamp_ms, batch
            )
        settle(log, segment)


def why_roll(
    log: Log,
    batch: RecordBatch,
    last_offset: int,
    now_ms: int,
    *,
    waiting: Sequence[RecordBatch] = (),
    waiting_bytes: int = 0,
) -> RollReason | None:
    """`plan.roll_reason` for the segment in use and what waits to be written to it.

    Each batch that waits counts as an index entry, so that the answer may be too strict: write what
    waits and ask again.
    """
    segment = log.active
    first_timestamp_ms = segment.first_timestamp_ms
    if segment.size == 0 and waiting:
        first_timestamp_ms = waiting[0].max_timestamp_ms
    stats = SegmentStats(
        base_offset=segment.base_offset,
        size_bytes=segment.size + waiting_bytes,
        first_timestamp_ms=first_timestamp_ms,
        created_ms=segment.created_ms,
        jitter_ms=segment.jitter_ms,
        is_index_full=segment.index_entries_left(log.config) <= len(waiting),
    )
    coming = NextBatch(
        size_bytes=batch.size, last_offset=last_offset, max_timestamp_ms=batch.max_timestamp_ms
    )
    return roll_reason(stats, log.config, coming, now_ms)


def append_as_follower(log: Log, records: memoryview, now_ms: int) -> int:
    """`Log.append_as_follower`: as many batches at once as fit into one segment."""
    if log.is_offline:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory} is offline")
    waiting: list[RecordBatch] = []
    waiting_bytes = 0
    start = position = 0
    next_offset = log.end_offset
    while whole_batch_size(records, position) is not None:
        batch = parse_batch(records, position)
        _check_replicated(log, batch, next_offset)
        try:
            ensure_ready(log)
            if _must_roll(log, batch, now_ms, waiting, waiting_bytes):
                _write_replicated(log, records[start:position], waiting)
                waiting, waiting_bytes, start = [], 0, position
                if _must_roll(log, batch, now_ms):
                    roll(log, batch.base_offset, now_ms)
        except OSError as error:
            raise storage_error(log, error) from error
        waiting.append(batch)
        waiting_bytes += batch.size
        position += batch.size
        next_offset = batch.next_offset
    _write_replicated(log, records[start:position], waiting)
    return log.end_offset


def _must_roll(
    log: Log,
    batch: RecordBatch,
    now_ms: int,
    waiting: Sequence[RecordBatch] = (),
    waiting_bytes: int = 0,
) -> bool:
    reason = why_roll(
        log, batch, batch.last_offset, now_ms, waiting=waiting, waiting_bytes=waiting_bytes
    )
    return reason is not None


def _check_replicated(log: Log, batch: RecordBatch, next_offset: int) -> None:
    where = f"{log.topic}-{log.partition} at offset {next_offset}"
    if batch.base_offset < next_offset:
        raise BrokerError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{where}: a batch begins at {batch.base_offset}"
        )
    if batch.last_offset_delta < 0 or not has_valid_crc(batch):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{where}: a batch is damaged")


def _write_replicated(log: Log, records: memoryview, waiting: Sequence[RecordBatch]) -> None:
    if not waiting:
        return
    segment = log.active
    try:
        segment.handle.use().append((records,))
    except OSError as error:
        raise undo_write(log, error) from error
    for batch in waiting:
        if batch.leader_epoch > log.leader_epochs.latest_epoch:
            log.assign_epoch(batch.leader_epoch, batch.base_offset)
        commit(log, segment, batch, batch.base_offset)
    settle(log, segment)


def ensure_ready(log: Log) -> None:
    """Load what the segment in use needs to be appended to.

    raises  OSError; BrokerError CORRUPT_MESSAGE when it is damaged
    """
    segment = log.active
    if segment.is_ready:
        return
    try:
        segment.get_ready(log.jitter_ms(segment.base_offset))
    except IndexUnready as error:
        # Producers do not try again after its code.
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, error.message) from error
    except CorruptBatch as error:
        log.shared.report(StorageEvent(segment.handle.path, f"no append: {error}"))
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{segment.handle.path}: {error}") from error
    log.update_limits()


def commit(log: Log, segment: Segment, batch: RecordBatch, base_offset: int) -> None:
    """Take a batch that was written at the end of `segment` into the log's state."""
    position = segment.size
    size = batch.size
    last_offset = base_offset + batch.last_offset_delta
    segment.size = position + size
    segment.note_batch(
        position, size, last_offset, batch.max_timestamp_ms, log.limits.index_interval_bytes
    )
    tail = log.tail
    tail.positions.append(position)
    tail.last_offsets.append(last_offset)
    log.end_offset = last_offset + 1
    if batch.producer_id < 0:
        log.producer_states.last_map_offset = last_offset + 1
    else:
        take_in(segment, log.producer_states, batch, base_offset)


def settle(log: Log, segment: Segment) -> None:
    """After commits: limits, and index entries to their files when many wait."""
    if len(log.tail.positions) > KEPT_MAX:
        log.tail.trim()
    log.update_limits()
    if segment.has_much_to_write():
        # What cannot be written now is written with the next entries, or when the segment is
        # closed; until then a crash rebuilds it.
        with contextlib.suppress(OSError):
            segment.write_indexes(is_last=False)


def undo_write(log: Log, error: OSError) -> BrokerError:
    """Cut off what a failed write may have left; returns the error to answer.

    The log goes offline when that fails too: what its file holds is unknown then.
    """
    segment = log.active
    if segment.handle.file is None:
        return storage_error(log, error)  # It could not be opened: nothing was written.
    try:
        segment.handle.use().truncate(segment.size)
    except OSError:
        log.is_offline = True
        log.update_limits()
    return storage_error(log, error)


def storage_error(log: Log, error: OSError) -> BrokerError:
    """The error of an append that the disk refuses; reported, so that an operator learns of it."""
    log.shared.report(StorageEvent(log.directory, f"no batch was appended: {error}"))
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def roll(log: Log, base_offset: int, now_ms: int) -> None:
    """Close the segment in use and begin one at `base_offset`, which is at or behind the end.

    raises  OSError; the log is as before, files of the new segment may be there
    """
    former = log.active
    base_offset = max(base_offset, log.end_offset)
    if former.base_offset == base_offset:
        # An empty segment that its settings call full (KAFKA-6388).
        return
    ensure_ready(log)
    states = log.producer_states
    former_map_offset, states.last_map_offset = states.last_map_offset, base_offset
    try:
        former.write_indexes(is_last=True)
        log.snapshots.write(states)
        segment = Segment.create(log.shared, log.directory, base_offset, created_ms=now_ms)
    except OSError:
        states.last_map_offset = former_map_offset
        raise
    former.seal()
    segment.jitter_ms = log.jitter_ms(base_offset)
    log.segments.append(segment)
    log.base_offsets.append(base_offset)
    log.active = segment
    log.end_offset = base_offset
    log.tail.reset(base_offset)
    log.update_limits()


def write_ends(log: Log) -> None:
    """Complete the indexes of the segment in use and write the producer state, for a clean stop.

    raises  OSError
    """
    segment = log.active
    if segment.is_ready:
        segment.write_indexes(is_last=True)
    log.snapshots.write(log.producer_states)
