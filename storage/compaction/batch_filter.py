"""What is kept of a batch when its log is cleaned.

    data of an aborted transaction    removed
    a record with a later one of its  removed
    key, or without a key
    a tombstone                       kept until the batch's delete horizon, which the first
                                      cleaning that keeps it sets: now + delete.retention.ms
    a transaction's marker            likewise, from when on no data of the transaction is left
    a batch without records           removed, unless it is the last one that an active producer has
                                      written (its sequence numbers are needed), or the last one
                                      below the first uncleanable offset

A batch that keeps all its records is copied unchanged.  One that loses some keeps offsets,
sequences, producer, leader epoch and codec; its greatest timestamp is that of the records left.

Differs from Kafka: without a horizon the base timestamp stays what it was, and with it the bytes of
the records; Kafka encodes them from the first record left.  A damaged checksum stops the
cleaning; Kafka would seal what it reads with a new one.  A compressed message set of a format
before version 2 that loses records becomes a batch of version 2.

Source: Kafka's Cleaner.cleanInto, shouldRetainRecord, MemoryRecords.filterTo; KIP-354, KIP-534.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    RecordBatch,
    has_valid_crc,
)
from odradek.protocol.records.builder import build_batch, sealed_batch
from odradek.protocol.records.compression import compress
from odradek.protocol.records.legacy import decode_legacy_records, parse_entry
from odradek.protocol.records.record import Record, records_part, wrap_int64
from odradek.runtime.files import Bytes
from odradek.storage.compaction.cleaned_transactions import CleanedTransactions
from odradek.storage.compaction.job import CleaningJob
from odradek.storage.compaction.offset_map import (
    HAS_TOMBSTONES,
    PLAIN_KEY_BYTES_MAX,
    SURVIVES,
    OffsetMap,
    digest,
)
from odradek.storage.compaction.record_scan import (
    Kept,
    keep_records,
    keep_survivors,
    move_base_timestamp,
    single_record,
)
from odradek.storage.files.batch_scan import CorruptBatch

_INT64_MAX: Final = 2**63 - 1


class Filtered(NamedTuple):
    """What is written in place of a batch."""

    data: Bytes
    last_offset: int
    max_timestamp_ms: int
    """The greatest time as a segment counts it: -1 for formats before version 2."""


class BatchFilter:
    """Is given every batch of a log from its start on, in order."""

    def __init__(
        self, offset_map: OffsetMap, job: CleaningJob, transactions: CleanedTransactions
    ) -> None:
        self._offsets = offset_map.offsets
        self._map_end_offset = offset_map.end_offset
        self._first_dirty_offset = offset_map.first_dirty_offset
        self._survivors = offset_map.survivors()
        self._first_uncleanable_offset = job.first_uncleanable_offset
        self._now_ms = job.now_ms
        horizon_ms = job.now_ms + job.delete_retention_ms
        self._new_horizon_ms = horizon_ms if horizon_ms <= _INT64_MAX else None
        self._last_of_producers = {
            producer.producer_id: (producer.last_data_offset, producer.producer_epoch)
            for producer in job.active_producers
        }
        self._transactions = transactions
        self._segment_end_offset = job.first_uncleanable_offset
        self._next_offset = 0
        self._drops_legacy_tombstones = False
        self.read_records = 0
        """Records seen so far."""
        self.kept_records = 0

    def begin_segment(self, end_offset: int, *, drops_legacy_tombstones: bool) -> None:
        """The next batches are of another segment.

        end_offset               exclusive
        drops_legacy_tombstones  whether those in formats before version 2 are removed; they have
                                 no horizon
        """
        self._segment_end_offset = end_offset
        self._drops_legacy_tombstones = drops_legacy_tombstones

    def filter(self, view: memoryview) -> Filtered | None:
        """What is kept of a batch, None when nothing is.

        raises  CorruptBatch, BrokerError INVALID_RECORD, IndexError: the batch is damaged
        """
        if view[MAGIC_POSITION] != MAGIC:
            return self._filter_legacy(view)
        batch = RecordBatch(view)
        check_offsets(batch, self._next_offset, self._segment_end_offset)
        self._next_offset = batch.next_offset
        if not has_valid_crc(batch):
            raise CorruptBatch(f"the checksum of {batch} is wrong")
        count = batch.record_count
        self.read_records += count
        may_discard = self._transactions.may_discard(batch)
        if batch.is_control:
            kept = self._filter_control(batch, may_discard)
        elif may_discard or count <= 0:
            kept = None
        else:
            kept = self._filter_data(batch, count)
        if kept is None and self._must_stay(batch):
            return Filtered(_without_records(batch), batch.last_offset, batch.max_timestamp_ms)
        return kept

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Whether the batch is kept even without records."""
        if batch.next_offset == self._first_uncleanable_offset:
            return True
        last = self._last_of_producers.get(batch.producer_id)
        if last is None:
            return False
        last_data_offset, producer_epoch = last
        if last_data_offset >= 0:
            return batch.last_offset == last_data_offset
        # It has written nothing but a marker: that holds its epoch, which fences older ones.
        return batch.is_control and batch.producer_epoch == producer_epoch

    def _filter_control(self, batch: RecordBatch, may_discard: bool) -> Filtered | None:
        if batch.record_count == 0:
            return None
        horizon_ms = batch.delete_horizon_ms
        if may_discard and horizon_ms is not None and horizon_ms <= self._now_ms:
            return None
        self.kept_records += batch.record_count
        if may_discard and horizon_ms is None and self._new_horizon_ms is not None:
            return self._with_horizon(
                batch,
                records_part(batch),
                batch.record_count,
                batch.max_timestamp_ms,
                self._new_horizon_ms,
            )
        return Filtered(batch.view, batch.last_offset, batch.max_timestamp_ms)

    def _filter_data(self, batch: RecordBatch, count: int) -> Filtered | None:
        flags = self._flags(batch, count)
        if flags is None:
            return self._filter_by_keys(batch, count)
        kept_count = flags.count(SURVIVES)
        self.kept_records += kept_count
        if kept_count == 0:
            return None
        if kept_count == count:
            return Filtered(batch.view, batch.last_offset, batch.max_timestamp_ms)
        data = records_part(batch)
        return self._shortened(batch, data, keep_survivors(data, flags), None)

    def _flags(self, batch: RecordBatch, count: int) -> bytearray | None:
        """What is known of the records from the first pass; None: look at them."""
        survivors = self._survivors
        if (
            survivors is None
            or batch.base_offset < self._first_dirty_offset
            or batch.last_offset >= self._map_end_offset
            or count != batch.last_offset_delta + 1
        ):
            return None
        start = batch.base_offset - self._first_dirty_offset
        if survivors[start] & HAS_TOMBSTONES:
            return None
        return survivors[start : start + count]

    def _filter_by_keys(self, batch: RecordBatch, count: int) -> Filtered | None:
        horizon_ms = batch.delete_horizon_ms
        data = records_part(batch)
        if count == 1:
            delta, key, is_tombstone = single_record(data)
            offset = batch.base_offset + delta
            if offset < self._map_end_offset and (
                key is None or offset < self._offsets.get(key, -1)
            ):
                return None
            if not is_tombstone:
                self.kept_records += 1
                return Filtered(batch.view, batch.last_offset, batch.max_timestamp_ms)
        kept = keep_records(
            self._offsets,
            data,
            count,
            batch.base_offset,
            self._map_end_offset,
            drops_tombstones=horizon_ms is not None and horizon_ms <= self._now_ms,
        )
        self.kept_records += kept.record_count
        if not kept.record_count:
            return None
        new_horizon_ms = None
        if kept.has_tombstone and horizon_ms is None:
            new_horizon_ms = self._new_horizon_ms
        if kept.record_count == count and new_horizon_ms is None:
            return Filtered(batch.view, batch.last_offset, batch.max_timestamp_ms)
        return self._shortened(batch, data, kept, new_horizon_ms)

    def _shortened(
        self, batch: RecordBatch, data: bytes, kept: Kept, new_horizon_ms: int | None
    ) -> Filtered:
        max_timestamp_ms = _max_timestamp(batch, kept)
        left = b"".join([data[start:end] for start, end in kept.spans])
        if new_horizon_ms is not None:
            return self._with_horizon(
                batch, left, kept.record_count, max_timestamp_ms, new_horizon_ms
            )
        return _rebuilt(
            batch,
            left,
            kept.record_count,
            batch.attributes,
            batch.base_timestamp_ms,
            max_timestamp_ms,
        )

    def _with_horizon(
        self, batch: RecordBatch, data: bytes, count: int, max_timestamp_ms: int, horizon_ms: int
    ) -> Filtered:
        """The base timestamp gives its place to the horizon; those of the records are moved."""
        fixed_ms = batch.max_timestamp_ms if batch.is_log_append_time else None
        moved = move_base_timestamp(data, batch.base_timestamp_ms, horizon_ms, fixed_ms)
        return _rebuilt(
            batch, moved, count, batch.attributes | DELETE_HORIZON, horizon_ms, max_timestamp_ms
        )

    def _filter_legacy(self, view: memoryview) -> Filtered | None:
        entry = parse_entry(view)
        records = list(decode_legacy_records(view))
        kept = [record for record in records if self._keeps_legacy(record)]
        self.read_records += len(records)
        self.kept_records += len(kept)
        if not kept:
            return None
        if len(kept) == len(records):
            return Filtered(view, entry.offset, NO_TIMESTAMP)
        batch = RecordBatch(
            memoryview(
                build_batch(
                    kept,
                    base_offset=kept[0].offset,
                    codec=entry.codec,
                    log_append_time_ms=(
                        entry.timestamp_ms if entry.attributes & LOG_APPEND_TIME else None
                    ),
                )
            )
        )
        return Filtered(batch.view, batch.last_offset, batch.max_timestamp_ms)

    def _keeps_legacy(self, record: Record) -> bool:
        if record.offset >= self._map_end_offset:
            return True
        key = record.key
        if key is None:
            return False
        if len(key) > PLAIN_KEY_BYTES_MAX:
            key = digest(key)
        if record.offset < self._offsets.get(key, -1):
            return False
        return record.value is not None or not self._drops_legacy_tombstones


def check_offsets(batch: RecordBatch, next_offset: int, end_offset: int) -> None:
    """Its offsets are not under its checksum; they must be in [next_offset, end_offset).

    raises  CorruptBatch
    """
    if not next_offset <= batch.base_offset <= batch.last_offset < end_offset:
        raise CorruptBatch(f"{batch} is not in {next_offset}..{end_offset}")


def _max_timestamp(batch: RecordBatch, kept: Kept) -> int:
    if batch.is_log_append_time:
        return batch.max_timestamp_ms
    return max(wrap_int64(batch.base_timestamp_ms + kept.max_timestamp_delta), NO_TIMESTAMP)


def _rebuilt(
    batch: RecordBatch,
    data: bytes,
    count: int,
    attributes: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
) -> Filtered:
    codec = batch.attributes & CODEC_MASK
    rebuilt = sealed_batch(
        compress(codec, data) if codec else data,
        batch.base_offset,
        batch.leader_epoch,
        attributes,
        batch.last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    return Filtered(rebuilt, batch.last_offset, max_timestamp_ms)


def _without_records(batch: RecordBatch) -> bytearray:
    """Its header, which still contains offsets, producer and sequences."""
    return sealed_batch(
        b"",
        batch.base_offset,
        batch.leader_epoch,
        batch.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        batch.last_offset_delta,
        NO_TIMESTAMP,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        0,
    )
