"""Appends batches of every kind: as leader, with rolls between them, and as follower.

The batches of one call wait in memory and are written with one `File.append` for each segment they
are appended to.  While they wait, the producer entries that they would change are kept aside; the
log's own state changes when they are in the file.

Source: Kafka's UnifiedLog.appendAsLeader, appendAsFollower.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    CONTROL,
    LOG_APPEND_TIME,
    RecordBatch,
    assign_offset,
    has_valid_crc,
    parse_batch,
    whole_batch_size,
)
from odradek.storage.log.head import Appended, Head, duplicate_of
from odradek.storage.log.rolling import RollReason
from odradek.storage.producers.producer_state import (
    Duplicate,
    ProducerEntry,
    check_append,
    check_coordinator_append,
    entry_after,
)


def append_batches(
    head: Head,
    batches: Sequence[RecordBatch],
    *,
    leader_epoch: int,
    log_start_offset: int,
    now_ms: int,
) -> list[Appended | BrokerError]:
    """`Log.append` for batches that are not all plain."""
    assert leader_epoch >= head.leader_epochs.latest_epoch, "a leader epoch fell"
    pending = _PendingBatches(head, leader_epoch, log_start_offset, len(batches), now_ms)
    for number, batch in enumerate(batches):
        pending.add(number, batch)
    pending.write()
    return [result for result in pending.results if result is not None]


class _PendingBatches:
    """Batches of one call that wait to be written to one segment."""

    __slots__ = (
        "_batches",
        "_dependent",
        "_entries",
        "_head",
        "_leader_epoch",
        "_log_start_offset",
        "_next_offset",
        "_now_ms",
        "_size",
        "results",
    )

    results: list[Appended | BrokerError | None]
    """One per batch of the call; None until it is known."""

    def __init__(
        self, head: Head, leader_epoch: int, log_start_offset: int, count: int, now_ms: int
    ) -> None:
        self._head = head
        self._leader_epoch = leader_epoch
        self._log_start_offset = log_start_offset
        self._now_ms = now_ms
        self.results = [None] * count
        self._batches: list[tuple[int, RecordBatch, int]] = []  # number, batch, base offset
        self._dependent: list[int] = []  # duplicates of batches that wait
        self._entries: dict[int, ProducerEntry] = {}
        self._next_offset = head.end_offset
        self._size = 0

    def add(self, number: int, batch: RecordBatch) -> None:
        """Let the next batch of the call wait, or note why it is not appended."""
        head = self._head
        try:
            self._check_batch(batch)
            last_offset = self._next_offset + batch.last_offset_delta
            size = head.segments.active.size + self._size + batch.size
            waiting_count = len(self._batches)
            if not head.limits.allow(size, last_offset, batch.max_timestamp_ms, waiting_count):
                self._roll_if_due(batch)
            # Only now: a roll may have written what waits, and failed.
            if batch.producer_id >= 0:
                duplicate = self._check_producer(batch)
                if duplicate is not None:
                    self.results[number] = duplicate_of(duplicate, self._log_start_offset)
                    if duplicate.last_offset >= head.end_offset:
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

    def _check_batch(self, batch: RecordBatch) -> None:
        head = self._head
        _check_open(head)
        segment_bytes = head.config.segment_bytes
        if batch.size > segment_bytes:
            raise BrokerError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{batch.size} bytes are more than the {segment_bytes} of a segment",
            )

    def _entry(self, producer_id: int) -> ProducerEntry | None:
        entry = self._entries.get(producer_id)
        return entry or self._head.producer_states.entries.get(producer_id)

    def _check_producer(self, batch: RecordBatch) -> Duplicate | None:
        entry = self._entry(batch.producer_id)
        # Clients cannot send either: the checks before an append refuse both.
        if batch.attributes & CONTROL or batch.base_sequence < 0:
            check_coordinator_append(entry, batch)
            return None
        return check_append(entry, batch)

    def _roll_if_due(self, batch: RecordBatch) -> None:
        """Roll before `batch` when there is a reason; what waits is written first."""
        if self._roll_reason(batch) is None:
            return
        self.write()
        if self._roll_reason(batch) is not None:
            head = self._head
            try:
                head.roll(head.end_offset, self._now_ms)
            except OSError as error:
                raise head.storage_error(error) from error
            self._next_offset = head.end_offset

    def _roll_reason(self, batch: RecordBatch) -> RollReason | None:
        head = self._head
        try:
            head.ensure_ready()
        except OSError as error:
            raise head.storage_error(error) from error
        return head.roll_reason(
            batch,
            self._next_offset + batch.last_offset_delta,
            self._now_ms,
            waiting=[batch for _, batch, _ in self._batches],
            waiting_bytes=self._size,
        )

    def write(self) -> None:
        """Write what waits; its results are known then."""
        waiting, dependent = self._batches, self._dependent
        if not waiting:
            return
        self._batches, self._dependent, self._entries, self._size = [], [], {}, 0
        head, results = self._head, self.results
        try:
            head.write([batch.view for _, batch, _ in waiting])
        except BrokerError as failure:
            for number in (*(number for number, _, _ in waiting), *dependent):
                results[number] = failure
            self._next_offset = head.end_offset
            return
        if self._leader_epoch != head.leader_epochs.latest_epoch:
            head.epochs.assign(self._leader_epoch, head.end_offset)
        for number, batch, base_offset in waiting:
            head.commit(batch, base_offset)
            results[number] = Appended(
                base_offset,
                base_offset + batch.last_offset_delta,
                batch.max_timestamp_ms if batch.attributes & LOG_APPEND_TIME else -1,
                self._log_start_offset,
                False,
            )
        head.settle()


def append_as_follower(
    head: Head, records: memoryview, *, leader_epoch: int, where: str, now_ms: int
) -> int:
    """`Log.append_as_follower`: as many batches with one write as fit into one segment.

    where  the partition, for errors
    """
    _check_open(head)
    waiting: list[RecordBatch] = []
    waiting_bytes = 0
    start = position = 0
    next_offset = head.end_offset
    while whole_batch_size(records, position) is not None:
        batch = parse_batch(records, position)
        if batch.leader_epoch > leader_epoch:
            break
        _check_replicated(batch, next_offset, where)
        size = head.segments.active.size + waiting_bytes + batch.size
        if not head.limits.allow(size, batch.last_offset, batch.max_timestamp_ms, len(waiting)):
            try:
                head.ensure_ready()
                if _must_roll(head, batch, now_ms, waiting, waiting_bytes):
                    _write_replicated(head, records[start:position], waiting)
                    waiting, waiting_bytes, start = [], 0, position
                    if _must_roll(head, batch, now_ms):
                        head.roll(batch.base_offset, now_ms)
            except OSError as error:
                raise head.storage_error(error) from error
        waiting.append(batch)
        waiting_bytes += batch.size
        position += batch.size
        next_offset = batch.next_offset
    _write_replicated(head, records[start:position], waiting)
    return head.end_offset


def _must_roll(
    head: Head,
    batch: RecordBatch,
    now_ms: int,
    waiting: Sequence[RecordBatch] = (),
    waiting_bytes: int = 0,
) -> bool:
    reason = head.roll_reason(
        batch, batch.last_offset, now_ms, waiting=waiting, waiting_bytes=waiting_bytes
    )
    return reason is not None


def _check_replicated(batch: RecordBatch, next_offset: int, where: str) -> None:
    where = f"{where} at offset {next_offset}"
    if batch.base_offset < next_offset:
        raise BrokerError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{where}: a batch begins at {batch.base_offset}"
        )
    if batch.last_offset_delta < 0 or not has_valid_crc(batch):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{where}: a batch is damaged")


def _write_replicated(head: Head, records: memoryview, waiting: Sequence[RecordBatch]) -> None:
    if not waiting:
        return
    head.write((records,))
    for batch in waiting:
        if batch.leader_epoch > head.leader_epochs.latest_epoch:
            head.epochs.assign(batch.leader_epoch, batch.base_offset)
        head.commit(batch, batch.base_offset)
    head.settle()


def _check_open(head: Head) -> None:
    if head.is_offline:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{head.segments.directory} is offline")
    if head.is_truncating:
        # Producers try again after it, as after a change of the leader.
        raise BrokerError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{head.segments.directory} is being truncated"
        )
