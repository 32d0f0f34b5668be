"""Makes record batches: those that brokers write themselves, and rewritten ones."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    seal,
)
from odradek.protocol.records.compression import compress
from odradek.protocol.records.record import Record, encode_record, wrap_int64


def build_batch(  # noqa: PLR0913 - a batch has that many fields
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = 0,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    log_append_time_ms: int | None = None,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of at least one record.

    records             their offsets ascend from `base_offset`; -1 is the one after the last
    codec               0 to 4
    log_append_time_ms  the time of all records; None: each has its own
    """
    assert records, "an empty batch has no offsets of its own"
    base_timestamp_ms = records[0].timestamp_ms
    max_timestamp_ms = NO_TIMESTAMP
    delta = -1
    parts = []
    for record in records:
        delta = delta + 1 if record.offset < 0 else record.offset - base_offset
        if record.timestamp_ms > max_timestamp_ms:
            max_timestamp_ms = record.timestamp_ms
        parts.append(
            encode_record(
                offset_delta=delta,
                timestamp_delta_ms=wrap_int64(record.timestamp_ms - base_timestamp_ms),
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
        )
    attributes = codec | (TRANSACTIONAL if is_transactional else 0) | (CONTROL if is_control else 0)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp_ms = log_append_time_ms
    body: bytes | bytearray = b"".join(parts)
    if codec:
        body = compress(codec, body, level)
    return sealed_batch(
        body,
        base_offset,
        leader_epoch,
        attributes,
        delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )


def sealed_batch(  # noqa: PLR0913 - the fields of the header in their order
    body: bytes | bytearray | memoryview,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytearray:
    """A header with its checksum before an encoded (and compressed) records part."""
    length = BATCH_OVERHEAD + len(body) - LOG_OVERHEAD
    batch = bytearray(
        HEADER.pack(
            base_offset,
            length,
            leader_epoch,
            2,
            0,
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
    )
    batch += body
    seal(memoryview(batch))
    return batch
