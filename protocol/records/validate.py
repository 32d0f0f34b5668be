"""What the leader checks before it appends a batch of a client (Produce v3 and above).

Of a usual batch only header and checksum are looked at: 1 us and the CRC.  Records are decoded
where a topic's settings ask for it: a compacted one needs keys, `message.timestamp.before.max.ms`
needs every timestamp.

Differs from Kafka: it walks over the records of each batch, compressed ones included, so it
refuses, and we let pass, batches whose checksum fits but
  - whose records are fewer or more than the header says, or are not well-formed (INVALID_RECORD
    there, UNKNOWN_SERVER_ERROR for numbers that do not end);
  - that cannot be decompressed, lz4 with linked blocks included (UNKNOWN_SERVER_ERROR there);
  - compressed ones whose offset deltas are not 0, 1, 2... (UNKNOWN_SERVER_ERROR there);
  - whose header understates the greatest timestamp, when a record breaks
    message.timestamp.after.max.ms (INVALID_TIMESTAMP there).
It also mends a greatest timestamp that is not that of the records: here only one below the base
timestamp is mended.  All of it is found where records are decoded, as INVALID_RECORD: compaction,
`recompress`, consumers.

Differs from Kafka, which gives no response to null records; here they are treated as empty ones.

Source: Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

from typing import Final, NoReturn

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    MAGIC_POSITION,
    RecordBatch,
    set_create_time,
    whole_batch_size,
)
from odradek.protocol.records.checksum import crc32c
from odradek.protocol.records.compression import ZSTD
from odradek.protocol.records.record import OUTPUT_BYTES_MAX, records_part
from odradek.protocol.records.scan import RecordsSummary, scan_records

NO_BOUND_MS: Final = 0x7FFF_FFFF_FFFF_FFFF
"""How far timestamps may lie from now when it is not bounded: the default of both settings."""

RECORD_ERRORS_MAX: Final = 1000
# Differs from Kafka: it lists every bad record of a batch, which may be 100,000 of them.

# zstd and the codecs that do not exist have this bit.
_RARE_CODEC: Final = 0x04
_RARE: Final = _RARE_CODEC | LOG_APPEND_TIME | CONTROL


KEY_IS_MISSING: Final = "Compacted topic cannot accept message without key"


LIGHT_RECORDS_MAX: Final = 500
LIGHT_OUTPUT_BYTES: Final = 256 * 1024
"""What records may grow to when they are decompressed on the loop: 0.3 ms of gzip."""


class HeavyBatch(Exception):
    """Looking into the records of this batch takes more than a millisecond: do it in a thread."""


class MalformedRecords(BrokerError):
    """What was sent is not one batch of today's format; Kafka refuses it before it looks at the
    partition."""


class InvalidRecords(BrokerError):
    """Some records of a batch are refused, and with them the batch."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...]
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
        """Index in the batch and reason, at most RECORD_ERRORS_MAX; Produce v8 returns them."""


def validate_produced(  # noqa: PLR0913 - what a topic's settings ask for
    records: memoryview | None,
    *,
    now_ms: int,
    max_message_bytes: int,
    timestamp_before_max_ms: int = NO_BOUND_MS,
    timestamp_after_max_ms: int = NO_BOUND_MS,
    is_log_append_time: bool = False,
    allows_zstd: bool = True,
    requires_keys: bool = False,
    only_light: bool = False,
) -> RecordBatch:
    """The one batch that a client may send for a partition.

    records             writable, of a Produce v3 or above; the header may be mended in place
    max_message_bytes   of the topic, for the batch as it was sent
    is_log_append_time  the caller sets the time when it appends; zstd is allowed from v7 on
    requires_keys       cleanup.policy has compact; decodes the records
    only_light          raise HeavyBatch, with nothing changed, rather than decode for long
    returns             the batch; a cut-off batch after it is left out as Kafka does
    raises              INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP,
                        UNSUPPORTED_COMPRESSION_TYPE, UNKNOWN_SERVER_ERROR (codec 5 to 7)
    """
    if records is None or len(records) < BATCH_OVERHEAD or records[MAGIC_POSITION] != 2:
        _refuse_start(records)
    batch = RecordBatch(records)
    if (size := batch.size) != len(records):
        batch = _first_batch(records)
        records, size = batch.view, batch.size
    if batch.base_offset != 0:
        _refuse_base_offset(batch)
    if size > max_message_bytes:
        _refuse_size(batch, max_message_bytes)
    if batch.crc != crc32c(records[21:]):
        _refuse_crc(batch)
    if batch.attributes & _RARE:
        _check_attributes(batch, allows_zstd=allows_zstd, is_log_append_time=is_log_append_time)
    delta = batch.last_offset_delta
    if delta < 0 or batch.record_count != delta + 1:
        _refuse_count(batch)
    if batch.base_sequence < 0 and batch.producer_id >= 0:
        _refuse_sequence(batch)
    if is_log_append_time and not requires_keys:
        return batch
    if (
        requires_keys
        or batch.max_timestamp_ms < batch.base_timestamp_ms
        or batch.max_timestamp_ms - now_ms > timestamp_after_max_ms
        or timestamp_before_max_ms != NO_BOUND_MS
        or batch.attributes & LOG_APPEND_TIME
    ):
        if only_light:
            check_light(batch)
        if is_log_append_time:
            validate_records_deeply(batch, requires_keys=True)
        else:
            bounds_ms = (now_ms - timestamp_before_max_ms, now_ms + timestamp_after_max_ms)
            batch = _with_checked_records(batch, requires_keys, *bounds_ms)
    return batch


def check_light(batch: RecordBatch) -> None:
    """Raises HeavyBatch when decoding the records may take longer than a millisecond."""
    if batch.record_count > LIGHT_RECORDS_MAX:
        raise HeavyBatch
    if batch.codec:
        try:
            records_part(batch, output_bytes_max=LIGHT_OUTPUT_BYTES)
        except BrokerError:
            raise HeavyBatch from None


def validate_records_deeply(
    batch: RecordBatch,
    *,
    requires_keys: bool = False,
    oldest_ms: int | None = None,
    newest_ms: int | None = None,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
) -> RecordsSummary:
    """Decode all records of a batch and check each.

    oldest_ms, newest_ms  what timestamps may be, both inclusive; -1 passes always; None: anything
    output_bytes_max      what the records may grow to when they are decompressed
    raises                InvalidRecords with INVALID_RECORD for missing keys, with
                          INVALID_TIMESTAMP when any timestamp is out of range; INVALID_RECORD for
                          damaged ones
    cost                  1.5 us a record, decompression besides
    """
    errors: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD

    def visit(index: int, timestamp_ms: int, has_key: bool) -> None:
        nonlocal code
        if requires_keys and not has_key:
            if len(errors) < RECORD_ERRORS_MAX:
                errors.append((index, KEY_IS_MISSING))
        elif timestamp_ms != -1 and (
            (oldest_ms is not None and timestamp_ms < oldest_ms)
            or (newest_ms is not None and timestamp_ms > newest_ms)
        ):
            code = ErrorCode.INVALID_TIMESTAMP
            if len(errors) < RECORD_ERRORS_MAX:
                errors.append(
                    (
                        index,
                        f"Timestamp {timestamp_ms} of message with offset {index} is out of range. "
                        f"The timestamp should be within [{oldest_ms}, {newest_ms}]",
                    )
                )

    data = records_part(batch, output_bytes_max=output_bytes_max)
    summary = scan_records(batch, data, visit)
    if errors:
        _refuse_records(code, errors)
    return summary


def _with_checked_records(
    batch: RecordBatch, requires_keys: bool, oldest_ms: int, newest_ms: int
) -> RecordBatch:
    """The batch with the greatest timestamp of its records in the header, as Kafka mends it."""
    summary = validate_records_deeply(
        batch, requires_keys=requires_keys, oldest_ms=oldest_ms, newest_ms=newest_ms
    )
    max_timestamp_ms = summary.max_timestamp_ms
    if batch.max_timestamp_ms == max_timestamp_ms and not batch.attributes & LOG_APPEND_TIME:
        return batch
    set_create_time(batch.view, max_timestamp_ms)
    return RecordBatch(batch.view)


def _first_batch(records: memoryview) -> RecordBatch:
    """The batch when bytes follow it or are missing."""
    size = whole_batch_size(records)
    if size is None:
        _refuse_start(None)
    if size < BATCH_OVERHEAD:
        raise MalformedRecords(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record batch is corrupt (the size {size} is smaller than the minimum allowed "
            f"overhead {BATCH_OVERHEAD})",
        )
    if whole_batch_size(records, size) is not None:
        raise MalformedRecords(
            ErrorCode.INVALID_RECORD,
            "Produce requests are only allowed to contain exactly one record batch per partition",
        )
    return RecordBatch(records[:size])


def _refuse_start(records: memoryview | None) -> NoReturn:
    if records is not None:
        size = whole_batch_size(records)
        if size is not None and records[MAGIC_POSITION] != 2:
            raise MalformedRecords(
                ErrorCode.INVALID_RECORD,
                "Produce requests are only allowed to contain record batches with magic version 2",
            )
        if size is not None:
            raise MalformedRecords(
                ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt: {size} bytes hold no batch"
            )
    raise MalformedRecords(
        ErrorCode.INVALID_RECORD,
        "Produce requests must have at least one record batch per partition",
    )


def _refuse_base_offset(batch: RecordBatch) -> NoReturn:
    raise BrokerError(
        ErrorCode.INVALID_RECORD,
        f"The baseOffset of the record batch in the append should be 0, but it is "
        f"{batch.base_offset}",
    )


def _refuse_size(batch: RecordBatch, max_message_bytes: int) -> NoReturn:
    raise BrokerError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append is {batch.size} bytes which exceeds the maximum "
        f"configured value of {max_message_bytes}.",
    )


def _refuse_crc(batch: RecordBatch) -> NoReturn:
    raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {batch.crc})")


def _refuse_count(batch: RecordBatch) -> NoReturn:
    if batch.last_offset_delta < 0:
        message = f"Batch has an invalid offset range: [0, {batch.last_offset}]"
    elif batch.record_count <= 0:
        message = f"Invalid reported count for record batch: {batch.record_count}"
    else:
        message = (
            f"Inconsistent batch offset range [0, {batch.last_offset}] and count of records "
            f"{batch.record_count}"
        )
    raise BrokerError(ErrorCode.INVALID_RECORD, message)


def _refuse_sequence(batch: RecordBatch) -> NoReturn:
    raise BrokerError(
        ErrorCode.INVALID_RECORD,
        f"Invalid sequence number {batch.base_sequence} in record batch with producerId "
        f"{batch.producer_id}",
    )


def _refuse_records(code: ErrorCode, errors: list[tuple[int, str]]) -> NoReturn:
    if code == ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in errors[:3]
        )
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    raise InvalidRecords(code, message, tuple(errors))


def _check_attributes(batch: RecordBatch, *, allows_zstd: bool, is_log_append_time: bool) -> None:
    codec = batch.attributes & CODEC_MASK
    if codec > ZSTD:
        # Kafka has no error for it: the exception of its enum reaches the client.
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {codec}")
    if codec == ZSTD and not allows_zstd:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "Produce requests below version 7 are not allowed to use ZStandard compression",
        )
    if batch.attributes & CONTROL:
        raise BrokerError(
            ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records"
        )
    if batch.attributes & LOG_APPEND_TIME and (is_log_append_time or batch.max_timestamp_ms == -1):
        reason = "Invalid timestamp type. Producer should not set timestamp type to LogAppendTime."
        _refuse_records(
            ErrorCode.INVALID_TIMESTAMP,
            [(index, reason) for index in range(min(batch.record_count, RECORD_ERRORS_MAX))],
        )
