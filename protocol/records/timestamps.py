"""Finds records by their time inside a batch, for ListOffsets.

Source: Kafka's FileRecords.searchForTimestamp, RecordBatch.offsetOfMaxTimestamp (KIP-734).
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record import OUTPUT_BYTES_MAX, record_times


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
    cost              none when the whole batch is older; else 1 us a record and the codec
    """
    if batch.max_timestamp_ms < timestamp_ms:
        return None
    for offset, time_ms in record_times(batch, output_bytes_max=output_bytes_max):
        if time_ms >= timestamp_ms and offset >= from_offset:
            return TimestampedOffset(offset, time_ms)
    return None
