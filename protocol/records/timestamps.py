"""Finds records by their time inside a batch, for ListOffsets.

Source: Kafka's FileRecords.searchForTimestamp, RecordBatch.offsetOfMaxTimestamp (KIP-734).
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.records.batch import NO_TIMESTAMP, RecordBatch
from odradek.protocol.records.record import OUTPUT_BYTES_MAX, decode_records


class TimestampedOffset(NamedTuple):
    """A record's place and time."""

    offset: int
    timestamp_ms: int


def first_record_at_or_after(
    batch: RecordBatch,
    timestamp_ms: int,
    *,
    from_offset: int = 0,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
) -> TimestampedOffset | None:
    """The first record that is no older than `timestamp_ms`, or None.

    from_offset       earlier records do not count: the log may start inside the batch
    output_bytes_max  what the records may grow to when they are decompressed
    raises            INVALID_RECORD for damaged records
    cost              none when the whole batch is older; else 2 us a record and the codec
    """
    if batch.max_timestamp_ms < timestamp_ms:
        return None
    for record in decode_records(batch, output_bytes_max=output_bytes_max):
        if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
            return TimestampedOffset(record.offset, record.timestamp_ms)
    return None


def max_timestamp_record(
    batch: RecordBatch, *, output_bytes_max: int = OUTPUT_BYTES_MAX
) -> TimestampedOffset | None:
    """The first record that carries the greatest timestamp; None when no record has a time.

    With LogAppendTime all records carry it, so it is the first that is left.

    raises  INVALID_RECORD for damaged records
    """
    wanted_ms = batch.max_timestamp_ms
    if wanted_ms == NO_TIMESTAMP:
        return None
    greatest = None
    for record in decode_records(batch, output_bytes_max=output_bytes_max):
        if greatest is None or record.timestamp_ms > greatest.timestamp_ms:
            greatest = TimestampedOffset(record.offset, record.timestamp_ms)
            if record.timestamp_ms == wanted_ms:
                break
    return greatest
