"""The inner loops of a cleaning: scans of the records of a batch, decoding keys only.

The first one is written out at length because it runs for every record of a log, twice; a function
call would cost as much as the rest.  Numbers that fit into one or two bytes are read in place,
longer ones by `protocol/records/record`.  Values and headers are never looked at: a record that
is kept is copied unchanged.

Structure is checked as far as it is walked over; the checksum of the batch has been compared.

Source: the record format in protocol/records/record; Kafka's Cleaner.shouldRetainRecord.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.records.record import (
    encode_varint,
    invalid_record,
    read_record_end,
    read_varint,
    read_varlong,
    wrap_int64,
)
from odradek.storage.compaction.offset_map import PLAIN_KEY_BYTES_MAX, OffsetMap, digest


class _Fields(NamedTuple):
    """End and fields of every record, in order; positions in the records part."""

    ends: list[int]
    time_positions: list[int]
    offset_deltas: list[int]
    keys: list[bytes | None]
    """The keys as the offset map has them."""
    value_positions: list[int]


def _scan(data: bytes, count: int) -> _Fields:
    fields = _Fields([], [], [], [], [])
    add_end, add_time = fields.ends.append, fields.time_positions.append
    add_delta, add_key = fields.offset_deltas.append, fields.keys.append
    add_value = fields.value_positions.append
    position = 0
    for _ in range(count):
        byte = data[position]
        if byte < 0x80:
            end = position + 1 + (byte >> 1)
            position += 2
        elif (second := data[position + 1]) < 0x80:
            end = position + 2 + ((byte & 0x7F | second << 7) >> 1)
            position += 3
        else:
            end, position = read_record_end(data, position)
            position += 1
        add_end(end)
        add_time(position)
        while data[position] >= 0x80:
            position += 1
        position += 1
        byte = data[position]
        if byte < 0x80:
            add_delta(byte >> 1)
            position += 1
        elif (second := data[position + 1]) < 0x80:
            add_delta((byte & 0x7F | second << 7) >> 1)
            position += 2
        else:
            delta, position = read_varint(data, position)
            add_delta(delta)
        byte = data[position]
        if byte < 0x80:
            # Zigzag: an odd number is a negative one.
            size = -1 if byte & 1 else byte >> 1
            position += 1
        else:
            size, position = read_varint(data, position)
        if size < 0:
            add_key(None)
        else:
            key = data[position : position + size]
            add_key(key if size <= PLAIN_KEY_BYTES_MAX else digest(key))
            position += size
        if position >= end:
            raise invalid_record("the key of a record ends after the record")
        add_value(position)
        position = end
    _check_end(data, position)
    return fields


def map_records(
    offset_map: OffsetMap, data: bytes, count: int, base_offset: int, last_offset_delta: int
) -> None:
    """Note the offset of every record that has a key, from the first dirty offset on.

    data    the records part of a batch, decompressed
    raises  INVALID_RECORD, IndexError: the records are damaged
    cost    0.6 us a record, and 1 us more where the map is large
    """
    offsets = offset_map.offsets
    start_offset = offset_map.first_dirty_offset
    if count == 1:
        delta, key, is_tombstone = single_record(data)
        if key is not None and base_offset + delta >= start_offset:
            offsets[key] = base_offset + delta
        if is_tombstone:
            offset_map.note_tombstones(base_offset)
        if not 0 <= delta <= last_offset_delta:
            offset_map.note_irregular()
        return
    fields = _scan(data, count)
    deltas = fields.offset_deltas
    pairs = zip(fields.keys, map(base_offset.__add__, deltas), strict=True)
    if base_offset >= start_offset:
        offsets.update(pairs)
    else:
        offsets.update((key, offset) for key, offset in pairs if offset >= start_offset)
    offsets.pop(None, None)
    # The size of a null value is an odd number too.
    size_bytes = dict.fromkeys(map(data.__getitem__, fields.value_positions))
    if any(byte & 1 for byte in size_bytes):
        offset_map.note_tombstones(base_offset)
    if count == last_offset_delta + 1:
        is_regular = deltas == list(range(count))
    else:
        is_regular = 0 <= min(deltas) <= max(deltas) <= last_offset_delta
    if not is_regular:
        offset_map.note_irregular()


class SingleRecord(NamedTuple):
    """The only record of a batch."""

    offset_delta: int
    key: bytes | None
    """The key as the offset map has it."""
    is_tombstone: bool


def single_record(data: bytes) -> SingleRecord:
    """The quick way for a batch of one record.

    data    its records part, decompressed
    raises  INVALID_RECORD, IndexError: the record is damaged
    cost    1 us
    """
    end, position = read_record_end(data, 0)
    position += 1
    while data[position] >= 0x80:
        position += 1
    delta, position = read_varint(data, position + 1)
    size, position = read_varint(data, position)
    key = None
    if size >= 0:
        key = data[position : position + size]
        position += size
        if size > PLAIN_KEY_BYTES_MAX:
            key = digest(key)
    if position >= end or end != len(data):
        raise invalid_record("the key of a record ends after the record")
    return SingleRecord(delta, key, data[position] & 1 == 1)


class Kept(NamedTuple):
    """Which records of a batch stay."""

    record_count: int
    spans: list[tuple[int, int]]
    """Their positions in the records part; records beside each other make one span."""
    max_timestamp_delta: int
    """The greatest of theirs, from the base timestamp; any number when none stays."""
    has_tombstone: bool


def keep_records(
    offsets: dict[bytes | None, int],
    data: bytes,
    count: int,
    base_offset: int,
    end_offset: int,
    *,
    drops_tombstones: bool,
) -> Kept:
    """Which records of a batch are the last ones of their keys.

    data              the records part of the batch, decompressed
    end_offset        of the map; what is at or after it is not known and is kept
    drops_tombstones  their time is over
    raises            INVALID_RECORD, IndexError: the records are damaged
    cost              0.9 us a record, and 1 us more where the map is large
    """
    spans: list[tuple[int, int]] = []
    span_start = span_end = start = 0
    kept = 0
    max_delta_ms = -(1 << 63)
    has_tombstone = False
    last_offset_of = offsets.get
    fields = _scan(data, count)
    for end, time_position, delta, key, value_position in zip(*fields, strict=True):
        offset = base_offset + delta
        is_kept = offset >= end_offset or (key is not None and offset >= last_offset_of(key, -1))
        if is_kept and data[value_position] & 1:
            is_kept = offset >= end_offset or not drops_tombstones
            has_tombstone |= is_kept
        if is_kept:
            kept += 1
            byte = data[time_position]
            delta_ms = byte >> 1 if byte < 0x80 else read_varlong(data, time_position)[0]
            if byte & 1 and byte < 0x80:
                delta_ms = -1 - delta_ms
            if delta_ms > max_delta_ms:
                max_delta_ms = delta_ms
            if start != span_end:
                spans.append((span_start, span_end))
                span_start = start
            span_end = end
        start = end
    spans.append((span_start, span_end))
    return Kept(kept, spans, max_delta_ms, has_tombstone)


def keep_survivors(data: bytes, flags: bytes | bytearray) -> Kept:
    """What a cleaning keeps of a batch where `flags` say which records stay.

    data    the records part of a batch without tombstones, decompressed
    flags   for every record in order 1, or 0 when it goes
    raises  INVALID_RECORD, IndexError: the records are damaged
    cost    0.3 us a record
    """
    spans: list[tuple[int, int]] = []
    span_start = span_end = position = 0
    max_delta_ms = -(1 << 63)
    for is_kept in flags:
        start = position
        byte = data[position]
        if byte < 0x80:
            position += 1 + (byte >> 1)
            time_position = start + 2
        elif (second := data[position + 1]) < 0x80:
            position += 2 + ((byte & 0x7F | second << 7) >> 1)
            time_position = start + 3
        else:
            position, time_position = read_record_end(data, position)
            time_position += 1
        if is_kept:
            delta_ms = read_varlong(data, time_position)[0]
            if delta_ms > max_delta_ms:
                max_delta_ms = delta_ms
            if start != span_end:
                spans.append((span_start, span_end))
                span_start = start
            span_end = position
    _check_end(data, position)
    spans.append((span_start, span_end))
    return Kept(flags.count(1), spans, max_delta_ms, has_tombstone=False)


def _check_end(data: bytes, position: int) -> None:
    if position != len(data):
        raise invalid_record("Incorrect declared batch size, records still remaining in file")


def move_base_timestamp(
    data: bytes, base_timestamp_ms: int, new_base_timestamp_ms: int, fixed_ms: int | None
) -> bytes:
    """The records with their timestamps counted from another base.

    data      whole records, one after the other
    fixed_ms  the timestamp of all of them, whatever they contain (LogAppendTime); None: their own
    raises    INVALID_RECORD, IndexError: the records are damaged
    cost      1.5 us a record
    """
    parts: list[bytes] = []
    position = 0
    while position < len(data):
        end, position = read_record_end(data, position)
        attributes = data[position : position + 1]
        delta_ms, position = read_varlong(data, position + 1)
        timestamp_ms = wrap_int64(base_timestamp_ms + delta_ms) if fixed_ms is None else fixed_ms
        moved = encode_varint(wrap_int64(timestamp_ms - new_base_timestamp_ms))
        rest = data[position:end]
        parts += (encode_varint(1 + len(moved) + len(rest)), attributes, moved, rest)
        position = end
    return b"".join(parts)
