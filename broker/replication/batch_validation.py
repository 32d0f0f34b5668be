"""Validates the bytes that a producer has sent: the result is one batch, ready to append.

Source: Kafka's UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import TRANSACTIONAL, RecordBatch
from odradek.protocol.records.recompress import recompress
from odradek.protocol.records.validate import check_light, validate_produced
from odradek.storage.log_config import LOG_APPEND_TIME, LogConfig

ZSTD_FROM: Final = 7
AS_PRODUCED: Final = "producer"
CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
OUTPUT_BYTES_MAX: Final = 64 << 20
"""Bound of a batch that is decompressed for another codec: a bomb must not fill memory."""


def validate_batch(
    records: memoryview | None,
    config: LogConfig,
    *,
    version: int,
    has_transactional_id: bool,
    now_ms: int,
    only_light: bool,
) -> RecordBatch:
    """Validate the one batch in `records`.

    A batch may be validated again while the coordinator of its transaction is asked: what it was
    sent with, its time included, is kept until it is appended.

    version     of the Produce request
    only_light  raise HeavyBatch rather than decode or recompress for longer than a millisecond
    raises      BrokerError, see `validate_produced`; RECORD_LIST_TOO_LARGE,
                TRANSACTIONAL_ID_AUTHORIZATION_FAILED (a transactional batch without an id)
    cost        1 us and the checksum, unless the topic is compacted or has another codec
    """
    is_log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    batch = validate_produced(
        records,
        now_ms=now_ms,
        max_message_bytes=config.max_message_bytes,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        is_log_append_time=is_log_append_time,
        allows_zstd=version >= ZSTD_FROM,
        requires_keys=config.cleanup_compact,
        only_light=only_light,
    )
    if batch.attributes & TRANSACTIONAL and not has_transactional_id:
        raise BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if config.compression_type != AS_PRODUCED:
        batch = _recompressed(batch, config, only_light=only_light)
    if batch.size > config.segment_bytes:
        raise BrokerError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {batch.size} bytes in append to partition, which exceeds the "
            f"maximum configured segment size of {config.segment_bytes}.",
        )
    return batch


def _recompressed(batch: RecordBatch, config: LogConfig, *, only_light: bool) -> RecordBatch:
    codec = CODECS[config.compression_type]
    if batch.codec == codec:
        return batch
    if only_light:
        check_light(batch)
    level = {
        1: config.compression_gzip_level,
        3: config.compression_lz4_level,
        4: config.compression_zstd_level,
    }.get(codec)
    data = recompress(batch, codec, level, output_bytes_max=OUTPUT_BYTES_MAX)
    if len(data) > config.max_message_bytes:
        raise BrokerError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append is {len(data)} bytes which exceeds the maximum "
            f"configured value of {config.max_message_bytes}.",
        )
    return RecordBatch(memoryview(data))
