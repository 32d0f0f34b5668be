"""The record batch, version 2, as a view over memory: its header is read, its records never are.

All numbers are big-endian.

    position  bytes  field
    0         8      base offset           set by the leader, not under the checksum
    8         4      length                bytes after this field: total - 12
    12        4      leader epoch          set by the leader, not under the checksum
    16        1      magic                 2
    17        4      crc                   CRC-32C of everything from position 21
    21        2      attributes            bits below
    23        4      last offset delta     stays when compaction removes records
    27        8      base timestamp        ms; with bit 6 the delete horizon (KIP-534)
    35        8      max timestamp         ms; with bit 3 the time of every record
    43        8      producer id           -1 none
    51        2      producer epoch        -1 none
    53        4      base sequence         -1 none; 2147483647 is followed by 0
    57        4      record count          0 is allowed after compaction
    61        -      records               one compressed block when the codec is not 0

    attributes   bits 0-2  codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
                 bit 3     timestamps are of the append (else of the producer)
                 bit 4     part of a transaction
                 bit 5     control batch
                 bit 6     base timestamp is a delete horizon

Source: kafka.apache.org/documentation#recordbatch; KIP-98; Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.checksum import crc32c

BATCH_OVERHEAD: Final = 61
"""Bytes of a batch without records."""
MAGIC: Final = 2
LOG_OVERHEAD: Final = 12
"""Bytes that the length field does not count: base offset and the field itself."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

SEQUENCE_MASK: Final = 0x7FFF_FFFF

HEADER: Final = Struct(">qiibIhiqqqhii")
"""The 61 bytes before the records, in the order of the table."""
_START: Final = Struct(">qii")
_LENGTH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")
_LENGTH_POSITION: Final = 8
MAGIC_POSITION: Final = 16
_CRC_POSITION: Final = 17
_ATTRIBUTES_POSITION: Final = 21
CRC_START: Final = _ATTRIBUTES_POSITION
"""The checksum covers what follows from here on."""
_MAX_TIMESTAMP_POSITION: Final = 35
# Smallest entry of any format: length, then crc, magic, attributes, two empty byte strings.
_LEGACY_LENGTH_MIN: Final = 14

_read_header = HEADER.unpack_from
_write_start = _START.pack_into
_read_length = _LENGTH.unpack_from


class RecordBatch:
    """The header of one batch and the memory that contains it.

    The memory is the caller's.  When it is patched in place (`assign_offset`), the fields here stay
    as they were read.  cost  0.5 us
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp_ms",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
        "view",
    )

    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    """Time of the first record when the batch was built; the delete horizon with bit 6."""
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, view: memoryview) -> None:
        """Read the header; nothing is checked (`parse_batch` does), 61 bytes must be there.

        view  exactly the bytes of the batch
        """
        self.view = view
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = _read_header(view)
        self.size: int = length + LOG_OVERHEAD

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets={self.base_offset}..{self.last_offset}, size={self.size}, "
            f"count={self.record_count}, leader_epoch={self.leader_epoch}, "
            f"attributes={self.attributes:#x}, producer={self.producer_id}/{self.producer_epoch}/"
            f"{self.base_sequence})"
        )

    @property
    def last_offset(self) -> int:
        """Offset of the last record, also when compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last one."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 mean nothing."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp_ms` is the time of every record."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction, markers included."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether its record is for brokers and clients, not for programs."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may drop its tombstones and markers (KIP-534), or None."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, or -1 without sequences."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK


def parse_batch(view: memoryview, position: int = 0) -> RecordBatch:
    """The batch that begins at `position`; more may follow it.

    raises  CORRUPT_MESSAGE when it is cut short, its length cannot be or its magic is unknown;
            UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1 (those are `legacy`'s)
    """
    remaining = len(view) - position
    if remaining <= MAGIC_POSITION:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{remaining} bytes are too few for a batch")
    size = _read_length(view, position + _LENGTH_POSITION)[0] + LOG_OVERHEAD
    magic = view[position + MAGIC_POSITION]
    if magic != MAGIC:
        if magic < 2:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"a message set of magic {magic}"
            )
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if size < BATCH_OVERHEAD:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record batch is corrupt (the size {size} is smaller than the minimum allowed "
            f"overhead {BATCH_OVERHEAD})",
        )
    if size > remaining:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is cut short after {remaining}"
        )
    return RecordBatch(view[position : position + size])


def whole_batch_size(view: memoryview, position: int = 0) -> int | None:
    """Bytes of the entry at `position`, of any magic; None when it is not there whole.

    raises  CORRUPT_MESSAGE for a length or a magic that cannot be
    source  Kafka's ByteBufferLogInputStream
    """
    remaining = len(view) - position
    if remaining < LOG_OVERHEAD:
        return None
    length: int = _read_length(view, position + _LENGTH_POSITION)[0]
    if length < _LEGACY_LENGTH_MIN:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_LEGACY_LENGTH_MIN})",
        )
    if remaining <= MAGIC_POSITION:
        return None
    magic = view[position + MAGIC_POSITION]
    if magic > 2:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    return length + LOG_OVERHEAD if length + LOG_OVERHEAD <= remaining else None


def iterate_batches(view: memoryview, *, allow_partial: bool = False) -> Iterator[RecordBatch]:
    """The batches that follow one another.

    allow_partial  the end of a Fetch response may be cut anywhere: the rest is left out
    raises         as `parse_batch`; with `allow_partial` not for a batch that is cut short
    """
    position = 0
    end = len(view)
    while position < end:
        if allow_partial and whole_batch_size(view, position) is None:
            return
        batch = parse_batch(view, position)
        yield batch
        position += batch.size


def has_valid_crc(batch: RecordBatch) -> bool:
    """Whether the bytes are those that the producer (or the last rewrite) sealed."""
    return batch.crc == crc32c(batch.view[_ATTRIBUTES_POSITION:])


def assign_offset(view: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write both in place; the checksum stays right, for both lie before its range.

    view  exactly the bytes of the batch: its length field is written again from it
    """
    _write_start(view, 0, base_offset, len(view) - LOG_OVERHEAD, leader_epoch)


def set_log_append_time(view: memoryview, timestamp_ms: int) -> None:
    """Give all records the time of the append, in place; the checksum is computed again."""
    (attributes,) = _ATTRIBUTES.unpack_from(view, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(view, _ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    seal(view)


def set_create_time(view: memoryview, max_timestamp_ms: int) -> None:
    """Say that the records carry their own times, the greatest being this one; new checksum."""
    (attributes,) = _ATTRIBUTES.unpack_from(view, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(view, _ATTRIBUTES_POSITION, attributes & ~LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    seal(view)


def seal(view: memoryview) -> None:
    """Write the checksum that fits the bytes."""
    _CRC.pack_into(view, _CRC_POSITION, crc32c(view[_ATTRIBUTES_POSITION:]))
