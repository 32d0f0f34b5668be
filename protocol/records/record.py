"""One record of a batch, and its layout in the uncompressed records part.

    field            encoding
    length           varint, bytes after it
    attributes       int8, 0
    timestamp delta  varlong, from the batch's base timestamp
    offset delta     varint, from the batch's base offset
    key              varint size (negative: null), bytes
    value            varint size (negative: null), bytes
    header count     varint
      header key     varint size, UTF-8
      header value   varint size (negative: null), bytes

Varints are zigzag, at most 5 bytes (varlong 10).  Nothing here runs on the way of a Produce or a
Fetch: decoding costs 1 to 2 us a record.

Source: kafka.apache.org/documentation#record; Kafka's DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import BATCH_OVERHEAD, CODEC_MASK, LOG_APPEND_TIME, RecordBatch
from odradek.protocol.records.compression import decompress

OUTPUT_BYTES_MAX: Final = 100 * 1024 * 1024
"""What a batch may grow to unless a caller says otherwise: an uncompressed one cannot be larger,
for socket.request.max.bytes has this default."""

NEXT_OFFSET: Final = -1

Data = bytes | bytearray | memoryview

Header = tuple[str, bytes | None]


class Record:
    """A record and its place in the log."""

    __slots__ = ("headers", "key", "offset", "timestamp_ms", "value")

    def __init__(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: tuple[Header, ...] = (),
        timestamp_ms: int = -1,
        offset: int = NEXT_OFFSET,
    ) -> None:
        self.key = key
        self.value = value
        """None is a tombstone on a compacted topic."""
        self.headers = headers
        """In order; keys may repeat."""
        self.timestamp_ms = timestamp_ms
        """Milliseconds since 1970, or -1 none."""
        self.offset = offset
        """In the log; when building, -1 is the offset after the record before."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Record({self.key!r}, {self.value!r}, headers={self.headers!r}, "
            f"timestamp_ms={self.timestamp_ms}, offset={self.offset})"
        )

    def _fields(self) -> tuple[object, ...]:
        return (self.offset, self.timestamp_ms, self.key, self.value, self.headers)


def records_part(batch: RecordBatch, *, output_bytes_max: int = OUTPUT_BYTES_MAX) -> bytes:
    """The records of a batch as bytes, decompressed.

    raises  INVALID_RECORD when they are damaged or grow beyond the bound;
            UNSUPPORTED_COMPRESSION_TYPE
    """
    part = batch.view[BATCH_OVERHEAD:]
    codec = batch.attributes & CODEC_MASK
    if codec == 0:
        return bytes(part)
    return bytes(decompress(codec, part, output_bytes_max=output_bytes_max))


def decode_records(
    batch: RecordBatch, *, output_bytes_max: int = OUTPUT_BYTES_MAX
) -> Iterator[Record]:
    """The records in order, decoded one by one as they are asked for.

    output_bytes_max  what the records may grow to when they are decompressed
    raises            INVALID_RECORD when they are damaged, grow beyond the bound, or are not as
                      many as the header says; UNSUPPORTED_COMPRESSION_TYPE
    """
    if batch.record_count == 0:
        return iter(())
    return _decode(batch, records_part(batch, output_bytes_max=output_bytes_max))


def _decode(batch: RecordBatch, data: bytes) -> Iterator[Record]:
    base_offset = batch.base_offset
    base_timestamp_ms = batch.base_timestamp_ms
    append_time_ms = batch.max_timestamp_ms if batch.attributes & LOG_APPEND_TIME else None
    headers: tuple[Header, ...]
    position = 0
    check_count(batch)
    for _ in range(batch.record_count):
        try:
            end, position = read_record_end(data, position)
            timestamp_ms, position = read_varlong(data, position + 1)
            offset_delta, position = read_varint(data, position)
            key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            if data[position]:
                headers, position = read_headers(data, position, end)
            else:
                headers = ()
                position += 1
        except IndexError:
            raise invalid_record("a record ends early") from None
        if position != end:
            raise invalid_record(f"a record ends at {end}, its fields at {position}")
        if append_time_ms is None:
            timestamp_ms = wrap_int64(base_timestamp_ms + timestamp_ms)
        else:
            timestamp_ms = append_time_ms
        yield Record(
            key,
            value,
            headers=headers,
            timestamp_ms=timestamp_ms,
            offset=base_offset + offset_delta,
        )
    if position != len(data):
        raise invalid_record("Incorrect declared batch size, records still remaining in file")


def record_times(
    batch: RecordBatch, *, output_bytes_max: int = OUTPUT_BYTES_MAX
) -> Iterator[tuple[int, int]]:
    """(offset, timestamp in ms) of each record; keys and values are passed over, not copied.

    output_bytes_max  and what is raised: as `decode_records`
    """
    check_count(batch)
    part, codec = batch.view[BATCH_OVERHEAD:], batch.attributes & CODEC_MASK
    data: Data = part
    if codec and batch.record_count:
        data = decompress(codec, part, output_bytes_max=output_bytes_max)
    append_time_ms = batch.max_timestamp_ms if batch.attributes & LOG_APPEND_TIME else None
    end = 0
    for _ in range(batch.record_count):
        try:
            end, position = read_record_end(data, end)
            timestamp_ms, position = read_varlong(data, position + 1)
            offset_delta, position = read_varint(data, position)
        except IndexError:
            raise invalid_record("a record ends early") from None
        if position > end:
            raise invalid_record(f"a record ends at {end}, its fields at {position}")
        if append_time_ms is None:
            timestamp_ms = wrap_int64(batch.base_timestamp_ms + timestamp_ms)
        else:
            timestamp_ms = append_time_ms
        yield batch.base_offset + offset_delta, timestamp_ms
    if end != len(data):
        raise invalid_record("Incorrect declared batch size, records still remaining in file")


def check_count(batch: RecordBatch) -> None:
    """A batch cannot hold fewer than no records.

    raises  INVALID_RECORD
    """
    if batch.record_count < 0:
        raise invalid_record(
            f"Found invalid record count {batch.record_count} in magic v{batch.magic} batch"
        )


def invalid_record(message: str) -> BrokerError:
    """The error that a damaged record is."""
    return BrokerError(ErrorCode.INVALID_RECORD, message)


def wrap_int64(number: int) -> int:
    """The sum of two Java longs, which wraps."""
    if -0x8000_0000_0000_0000 <= number <= 0x7FFF_FFFF_FFFF_FFFF:
        return number
    return (number + 0x8000_0000_0000_0000) % 0x1_0000_0000_0000_0000 - 0x8000_0000_0000_0000


def read_record_end(data: Data, position: int) -> tuple[int, int]:
    """Where the record at `position` ends, and where its fields begin.

    raises  INVALID_RECORD when it would end outside of `data`, IndexError when the length is cut
    """
    size, position = read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise invalid_record(
            f"Invalid record size: expected {size} bytes in record payload, but instead the buffer "
            f"has only {len(data) - position} remaining bytes."
        )
    return end, position


def read_varint(data: Data, position: int) -> tuple[int, int]:
    """A zigzag number of 32 bits and the position after it; IndexError at the end of `data`."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    number = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= 0xFFFF_FFFF
            return (number >> 1) ^ -(number & 1), position + 1
    raise invalid_record("a varint of more than 5 bytes")


def read_varlong(data: Data, position: int) -> tuple[int, int]:
    """A zigzag number of 64 bits and the position after it; IndexError at the end of `data`."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    number = byte & 0x7F
    for shift in range(7, 70, 7):
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= 0xFFFF_FFFF_FFFF_FFFF
            return (number >> 1) ^ -(number & 1), position + 1
    raise invalid_record("a varlong of more than 10 bytes")


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise invalid_record(f"{size} bytes of a record where {end - position} are left")
    return data[position : position + size], position + size


def read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    """The headers that end a record, their count first; IndexError at the end of `data`."""
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise invalid_record(f"Found invalid number of record headers {count}")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise invalid_record("Invalid negative header key size")
        value, position = _read_bytes(data, position, end)
        # Java replaces what is not UTF-8 too: a strange key spoils no batch.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position


def encode_varint(number: int) -> bytes:
    """Zigzag, as short as it can be; good for varlongs too."""
    number = (number << 1) ^ (number >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


_ONE_BYTE: Final = [bytes((number,)) for number in range(0x80)]
_NULL: Final = encode_varint(-1)


def encode_record(
    *,
    offset_delta: int,
    timestamp_delta_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...] = (),
) -> bytes:
    """The bytes of one record, its length first."""
    parts = [b"\x00", encode_varint(timestamp_delta_ms), encode_varint(offset_delta)]
    if key is None:
        parts.append(_NULL)
    else:
        parts += (encode_varint(len(key)), key)
    if value is None:
        parts.append(_NULL)
    else:
        parts += (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for header_key, header_value in headers:
        name = header_key.encode()
        parts += (encode_varint(len(name)), name)
        if header_value is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(header_value)), header_value)
    fields = b"".join(parts)
    return encode_varint(len(fields)) + fields
