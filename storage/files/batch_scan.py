"""Walks over the batches in a segment's file.

Two ways: by headers only, to find a position in a file that is trusted; and whole batches, for a
file that a crash may have torn.

Entries of the message formats before version 2 (Kafka < 0.11) may be in old segments.  They are
skipped by their offset and length, and sent as they are; their records are not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    CRC_START,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    RecordBatch,
    parse_batch,
)
from odradek.protocol.records.checksum import crc32c
from odradek.runtime.files import File

HEADER_CHUNK_BYTES: Final = 4_096 + 128
"""A batch starts at most index.interval.bytes after an index entry, when batches are small."""
CHUNK_BYTES: Final = 1 << 20
LARGE_BATCH_BYTES: Final = 16 << 20
"""A batch that is larger is read whole only if its checksum is right."""

# base offset, length, leader epoch, magic, (crc, attributes,) last offset delta, (base timestamp,)
# max timestamp
_HEADER: Final = Struct(">qiib6xi8xq")
_read_header = _HEADER.unpack_from
_HEADER_BYTES: Final = _HEADER.size
_LEGACY_BYTES_MIN: Final = 26


class CorruptBatch(Exception):
    """The bytes at a position of a segment cannot be a batch."""


class FoundBatch(NamedTuple):
    """Where a batch is, and what its header contains."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    """-1 for formats before version 2."""
    max_timestamp_ms: int
    """-1 when no record has one."""
    magic: int


def iterate_headers(
    file: File, position: int, end_position: int, *, chunk_bytes: int = HEADER_CHUNK_BYTES
) -> Iterator[FoundBatch]:
    """The batches from `position` (where one starts) up to `end_position`.

    raises  CorruptBatch for a header that cannot be, or a batch that passes `end_position`
    cost    0.7 us a batch, and one read per chunk
    """
    headers = BatchHeaders(file, end_position, chunk_bytes)
    while position < end_position:
        yield (batch := headers.read(position))
        position += batch.size


class BatchHeaders:
    """The headers of a file's batches up to `end_position`, read in chunks."""

    __slots__ = ("_chunk", "_chunk_bytes", "_chunk_start", "_end_position", "_file")

    def __init__(
        self, file: File, end_position: int, chunk_bytes: int = HEADER_CHUNK_BYTES
    ) -> None:
        self._file = file
        self._end_position = end_position
        self._chunk_bytes = chunk_bytes
        self._chunk = b""
        self._chunk_start = 0

    def read(self, position: int) -> FoundBatch:
        """The batch at `position`, which is before the end and not before an earlier one.

        raises  CorruptBatch, as `iterate_headers`
        """
        at = position - self._chunk_start
        if at + _HEADER_BYTES > len(self._chunk):
            rest = self._end_position - position
            size = self._chunk_bytes if self._chunk_bytes < rest else rest
            self._chunk = self._file.read_at(position, size)
            self._chunk_start, at = position, 0
        return _found_batch(self._chunk, at, position, self._end_position)


def _found_batch(chunk: bytes, at: int, position: int, end_position: int) -> FoundBatch:
    rest = end_position - position
    if len(chunk) - at < _HEADER_BYTES:
        if rest >= BATCH_OVERHEAD:
            raise CorruptBatch(f"the file ends at position {position}")
        # Too short for a batch of version 2; the least entry of older formats is that short.
        chunk, at = chunk[at:] + bytes(_HEADER_BYTES), 0
    base_offset, length, epoch, magic, delta, max_timestamp_ms = _read_header(chunk, at)
    size = length + LOG_OVERHEAD
    if magic == MAGIC:
        if size < BATCH_OVERHEAD or delta < 0:
            raise CorruptBatch(f"no batch at position {position}")
        last_offset = base_offset + delta
    elif 0 <= magic < MAGIC and size >= _LEGACY_BYTES_MIN:
        last_offset, epoch, max_timestamp_ms = base_offset, -1, -1
    else:
        raise CorruptBatch(f"no batch at position {position}")
    if size > rest or base_offset < 0:
        raise CorruptBatch(f"the batch at position {position} is cut short")
    return FoundBatch(position, size, base_offset, last_offset, epoch, max_timestamp_ms, magic)


def iterate_batches(
    file: File, position: int, end_position: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[int, RecordBatch]]:
    """(position, batch) of all whole batches from `position` on; their checksums are not checked.

    Ends at `end_position`, or before the first bytes that are not a whole batch.

    memory  `chunk_bytes`, or one batch if that is larger; a length that was damaged costs none:
            above `LARGE_BATCH_BYTES` the checksum is looked at first
    """
    chunk = memoryview(b"")
    at = 0
    while position < end_position:
        rest = end_position - position
        size = _whole_size(chunk, at)
        if size is None or at + size > len(chunk):
            if size is None or size <= chunk_bytes:
                chunk = memoryview(file.read_at(position, min(chunk_bytes, rest)))
                at = 0
                size = _whole_size(chunk, 0)
            if size is not None and chunk_bytes < size <= rest:
                if size > LARGE_BATCH_BYTES and not _is_sealed(file, position, size):
                    return
                chunk = memoryview(file.read_at(position, size))
                at = 0
        try:
            batch = parse_batch(chunk, at)
        except BrokerError:
            return
        yield position, batch
        at += batch.size
        position += batch.size


def _is_sealed(file: File, position: int, size: int) -> bool:
    """Whether the checksum of a batch is right; reads it in slices."""
    header = file.read_at(position, BATCH_OVERHEAD)
    if header[MAGIC_POSITION] != MAGIC:
        return False
    checksum = 0
    for at in range(position + CRC_START, position + size, CHUNK_BYTES):
        checksum = crc32c(file.read_at(at, min(CHUNK_BYTES, position + size - at)), checksum)
    return checksum == int.from_bytes(header[CRC_START - 4 : CRC_START], "big")


def _whole_size(chunk: memoryview, at: int) -> int | None:
    """Size of the batch as its header says, None when the header is not there."""
    if len(chunk) - at < LOG_OVERHEAD:
        return None
    return int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD
