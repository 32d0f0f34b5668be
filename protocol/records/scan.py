"""Walks over the records of a batch without making values of them: is each one sound, and when?

Costs about 1 us a record, so it runs only where a topic's settings need the content of records.

Source: Kafka's LogValidator, DefaultRecord.readPartiallyFrom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.protocol.records.batch import LOG_APPEND_TIME, NO_TIMESTAMP, RecordBatch
from odradek.protocol.records.record import (
    check_count,
    invalid_record,
    read_record_end,
    read_varint,
    read_varlong,
    wrap_int64,
)

Visitor = Callable[[int, int, bool], None]
"""Called with index, timestamp_ms and whether there is a key, for every record in order."""


class RecordsSummary(NamedTuple):
    """What the records of a batch say, as against its header."""

    max_timestamp_ms: int
    """The greatest, or -1."""
    has_consecutive_offsets: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""


def scan_records(batch: RecordBatch, data: bytes, visit: Visitor | None = None) -> RecordsSummary:
    """Check the structure of all records.

    data    the records part, decompressed
    raises  INVALID_RECORD when a record is damaged or they are not as many as the header says
    """
    check_count(batch)
    append_time_ms = batch.max_timestamp_ms if batch.attributes & LOG_APPEND_TIME else None
    base_timestamp_ms = batch.base_timestamp_ms
    max_timestamp_ms = NO_TIMESTAMP
    is_consecutive = True
    position = 0
    try:
        for index in range(batch.record_count):
            end, position = read_record_end(data, position)
            delta_ms, position = read_varlong(data, position + 1)
            offset_delta, position = read_varint(data, position)
            key_size, position = read_varint(data, position)
            if key_size > 0:
                position += key_size
            _check_rest(data, position, end)
            if offset_delta != index:
                is_consecutive = False
            timestamp_ms = (
                wrap_int64(base_timestamp_ms + delta_ms)
                if append_time_ms is None
                else append_time_ms
            )
            if timestamp_ms > max_timestamp_ms:
                max_timestamp_ms = timestamp_ms
            if visit is not None:
                visit(index, timestamp_ms, key_size >= 0)
            position = end
    except IndexError:
        raise invalid_record("Incorrect declared batch size, premature EOF reached") from None
    if position != len(data):
        raise invalid_record("Incorrect declared batch size, records still remaining in file")
    return RecordsSummary(max_timestamp_ms, is_consecutive)


def _check_rest(data: bytes, position: int, end: int) -> None:
    """Value and headers must end where the record does; IndexError at the end of `data`."""
    if position > end:
        raise invalid_record("the key of a record ends after the record")
    size, position = read_varint(data, position)
    if size > 0:
        position += size
    if data[position] or position >= end:
        position = _skip_headers(data, position, end)
    else:
        position += 1
    if position != end:
        raise invalid_record(
            f"Invalid record size: the record ends at {end}, its fields at {position}"
        )


def _skip_headers(data: bytes, position: int, end: int) -> int:
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise invalid_record(f"Found invalid number of record headers {count}")
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise invalid_record(f"Invalid negative header key size {size}")
        position += size
        size, position = read_varint(data, position)
        if size > 0:
            position += size
        if position > end:
            raise invalid_record("the headers of a record end after the record")
    return position
