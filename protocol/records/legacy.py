"""Message sets of the formats before version 2: magic 0 (Kafka < 0.10) and 1 (< 0.11).

Segments written by old brokers contain them; none are written here.  A set is a sequence of
entries; numbers are big-endian:

    position  bytes   field
    0         8       offset
    8         4       length of what follows
    12        4       CRC-32 (IEEE) of everything from position 16
    16        1       magic, 0 or 1
    17        1       attributes: bits 0-2 codec (no zstd); bit 3 append time, magic 1
    18        8       timestamp, ms, only magic 1
    18 or 26  4 + n   key, size -1 for null
    ...       4 + n   value, size -1 for null

A compressed entry holds a set of its own as value and has the offset of the last entry in there;
the inner offsets are absolute with magic 0, and relative (0, 1, 2...) with magic 1 (KIP-31).

Source: kafka.apache.org/documentation#messageset; Kafka's LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    whole_batch_size,
)
from odradek.protocol.records.compression import LZ4, decompress
from odradek.protocol.records.record import OUTPUT_BYTES_MAX, Record

_ENTRY: Final = Struct(">qiIbb")
_TIMESTAMP: Final = Struct(">q")
_SIZE: Final = Struct(">i")
_CRC_START: Final = 16
_LZ4_HAS_CONTENT_SIZE: Final = 0x08


class LegacyEntry(NamedTuple):
    """One entry of a set: a record, or a compressed set of them."""

    offset: int
    """Offset of the record, or of the last one in a compressed set."""
    size: int
    """Bytes of the whole entry."""
    checksum: int
    magic: int
    attributes: int
    timestamp_ms: int
    """-1 with magic 0."""
    key: bytes | None
    value: memoryview | None

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4."""
        return self.attributes & CODEC_MASK


def parse_entry(view: memoryview, position: int = 0) -> LegacyEntry:
    """The entry that begins at `position`, its checksum compared.

    raises  CORRUPT_MESSAGE when it is cut short, damaged, or of another format
    """
    import zlib

    size = whole_batch_size(view, position)
    if size is None:
        raise _corrupt("an entry of a message set is cut short")
    entry = view[position : position + size]
    offset, _, crc, magic, attributes = _ENTRY.unpack_from(entry)
    if magic > 1:
        raise _corrupt(f"an entry of magic {magic} in a message set")
    if crc != zlib.crc32(entry[_CRC_START:]):
        raise _corrupt(f"Record is corrupt (stored crc = {crc})")
    at = _ENTRY.size
    timestamp_ms = NO_TIMESTAMP
    if magic == 1:
        if size < at + _TIMESTAMP.size:
            raise _corrupt("an entry of a message set has no timestamp")
        (timestamp_ms,) = _TIMESTAMP.unpack_from(entry, at)
        at += _TIMESTAMP.size
    key, at = _read_bytes(entry, at)
    value, at = _read_bytes(entry, at)
    if at != size:
        raise _corrupt(f"an entry of {size} bytes has fields of {at}")
    return LegacyEntry(
        offset,
        size,
        crc,
        magic,
        attributes,
        timestamp_ms,
        None if key is None else bytes(key),
        value,
    )


def iterate_entries(view: memoryview, *, allow_partial: bool = False) -> Iterator[LegacyEntry]:
    """The outer entries of a set.

    allow_partial  an entry that is cut short ends the set silently
    raises         CORRUPT_MESSAGE
    """
    position = 0
    while position < len(view):
        if allow_partial and whole_batch_size(view, position) is None:
            return
        entry = parse_entry(view, position)
        yield entry
        position += entry.size


def decode_legacy_records(
    view: memoryview, *, allow_partial: bool = False, output_bytes_max: int = OUTPUT_BYTES_MAX
) -> Iterator[Record]:
    """All records of a set with their absolute offsets, those of compressed entries included.

    output_bytes_max  what one compressed entry may grow to
    raises            CORRUPT_MESSAGE; INVALID_RECORD when an entry cannot be decompressed
    """
    for entry in iterate_entries(view, allow_partial=allow_partial):
        yield from _records_of(entry, output_bytes_max)


def _records_of(entry: LegacyEntry, output_bytes_max: int) -> Iterator[Record]:
    if entry.codec == 0:
        yield _record(entry, entry.offset, entry.timestamp_ms)
        return
    inner = _inner_entries(entry, output_bytes_max)
    if not inner:
        raise _corrupt("a compressed entry of a message set holds no entries")
    shift = entry.offset - inner[-1].offset if entry.magic == 1 else 0
    append_time_ms = entry.timestamp_ms if entry.attributes & LOG_APPEND_TIME else None
    for record in inner:
        if record.codec or record.magic != entry.magic:
            raise _corrupt("a compressed entry of a message set holds another one, or other magic")
        yield _record(
            record,
            record.offset + shift,
            record.timestamp_ms if append_time_ms is None else append_time_ms,
        )


def _inner_entries(entry: LegacyEntry, output_bytes_max: int) -> list[LegacyEntry]:
    if entry.value is None:
        raise _corrupt("a compressed entry of a message set has no value")
    data = entry.value
    if entry.codec == LZ4 and entry.magic == 0:
        data = _with_lz4_header_checksum(data)
    return list(
        iterate_entries(
            memoryview(decompress(entry.codec, data, output_bytes_max=output_bytes_max))
        )
    )


def record_checksums(view: memoryview) -> Iterator[int]:
    """The checksum of each record that `decode_legacy_records` yields, and its errors."""
    for entry in iterate_entries(view):
        if entry.codec == 0:
            yield entry.checksum
        else:
            yield from (inner.checksum for inner in _inner_entries(entry, OUTPUT_BYTES_MAX))


def _record(entry: LegacyEntry, offset: int, timestamp_ms: int) -> Record:
    return Record(
        entry.key,
        None if entry.value is None else bytes(entry.value),
        timestamp_ms=timestamp_ms,
        offset=offset,
    )


def _read_bytes(entry: memoryview, position: int) -> tuple[memoryview | None, int]:
    if position + _SIZE.size > len(entry):
        raise _corrupt("an entry of a message set ends early")
    (size,) = _SIZE.unpack_from(entry, position)
    position += _SIZE.size
    if size < 0:
        return None, position
    if size > len(entry) - position:
        raise _corrupt(f"{size} bytes of an entry where {len(entry) - position} are left")
    return entry[position : position + size], position + size


def _with_lz4_header_checksum(data: memoryview) -> memoryview:
    """Clients of magic 0 summed the header of lz4 wrongly (KAFKA-3160): put in what fits.

    The sum is one byte of a hash that the library does not offer, but it does compare, so the
    256 values are tried.
    """
    import lz4.frame

    if len(data) < 7:
        return data
    position = 14 if data[4] & _LZ4_HAS_CONTENT_SIZE else 6
    header = bytearray(data[: position + 1])
    for checksum in range(256):
        header[position] = checksum
        try:
            lz4.frame.get_frame_info(bytes(header))
        except RuntimeError:
            continue
        return memoryview(bytes(header) + bytes(data[position + 1 :]))
    return data


def _corrupt(message: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, message)
