"""Compresses a batch again for a topic whose compression.type names another codec than it has."""

from __future__ import annotations

from odradek.protocol.records.batch import CODEC_MASK, LOG_APPEND_TIME, RecordBatch
from odradek.protocol.records.builder import sealed_batch
from odradek.protocol.records.compression import compress
from odradek.protocol.records.record import (
    OUTPUT_BYTES_MAX,
    decode_records,
    encode_record,
    records_part,
    wrap_int64,
)
from odradek.protocol.records.scan import scan_records


def recompress(
    batch: RecordBatch,
    codec: int,
    level: int | None = None,
    *,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
) -> bytearray:
    """The records of a batch in another codec; offsets, times, producer and sequences stay.

    Call it when `batch.codec` is not `codec`; compare the size of the result with the topic's
    max.message.bytes again, as Kafka does.

    codec             0 to 4
    level             of compression.<codec>.level, None for its default
    output_bytes_max  what the records may grow to when they are decompressed
    raises            INVALID_RECORD when the records are damaged or grow beyond the bound
    cost              about 1 us a record and the codecs: with big batches a matter for a thread
    source            Kafka's LogValidator.buildRecordsAndAssignOffsets
    """
    data = records_part(batch, output_bytes_max=output_bytes_max)
    summary = scan_records(batch, data)
    if not summary.has_consecutive_offsets:
        data = _renumbered(batch, output_bytes_max)
    max_timestamp_ms = (
        batch.max_timestamp_ms if batch.attributes & LOG_APPEND_TIME else summary.max_timestamp_ms
    )
    return sealed_batch(
        compress(codec, data, level) if codec else data,
        batch.base_offset,
        batch.leader_epoch,
        batch.attributes & ~CODEC_MASK | codec,
        batch.last_offset_delta,
        batch.base_timestamp_ms,
        max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )


def _renumbered(batch: RecordBatch, output_bytes_max: int) -> bytes:
    """The records with offset deltas 0, 1, 2...: some clients count them wrongly."""
    return b"".join(
        encode_record(
            offset_delta=index,
            timestamp_delta_ms=wrap_int64(record.timestamp_ms - batch.base_timestamp_ms),
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for index, record in enumerate(decode_records(batch, output_bytes_max=output_bytes_max))
    )
