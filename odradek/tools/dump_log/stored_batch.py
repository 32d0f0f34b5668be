"""Batches of a segment's file as DumpLogSegments reads them: damaged ones, too, and every magic.

Source: Kafka 3.9's FileLogInputStream, DefaultRecordBatch and AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from functools import cached_property
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    RecordBatch,
    has_valid_crc,
)
from odradek.protocol.records.legacy import decode_legacy_records, record_checksums
from odradek.protocol.records.record import Record, decode_records
from odradek.tools.errors import ToolError

HEADER_BYTES: Final = MAGIC_POSITION + 1
LENGTH_MIN: Final = 14
"""The shortest entry of any magic, without its offset and its length."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_START: Final = Struct(">qi")
_LEGACY: Final = Struct(">Ibb")
"""Checksum, magic and attributes of an entry before magic 2, after its length."""
_TIMESTAMP: Final = Struct(">q")
_CRC_START: Final = 16


class DumpError(ToolError):
    """A file cannot be dumped any further; `str` of the error is the text of Kafka's exception."""


class DumpedRecord(NamedTuple):
    """One record of a batch."""

    record: Record
    checksum: int | None
    """The CRC of an entry before magic 2."""


class StoredBatch:
    """A batch of any magic, whose length fits into its file."""

    def __init__(self, view: memoryview, size: int, position: int) -> None:
        """
        view      the bytes of the batch, at least BATCH_OVERHEAD of them
        position  in the file
        """
        self.view = view
        self.size = size
        self.position = position
        self.magic: int = view[MAGIC_POSITION]
        self.is_legacy = self.magic < MAGIC

    @cached_property
    def header(self) -> RecordBatch:
        """The header of a batch since magic 2."""
        return RecordBatch(self.view)

    @cached_property
    def _legacy(self) -> tuple[int, int]:
        checksum, _, attributes = _LEGACY.unpack_from(self.view, LOG_OVERHEAD)
        return checksum, attributes

    @property
    def last_offset(self) -> int:
        if self.is_legacy:
            return int(_START.unpack_from(self.view)[0])
        return self.header.last_offset

    @property
    def checksum(self) -> int:
        return self._legacy[0] if self.is_legacy else self.header.crc

    @property
    def max_timestamp_ms(self) -> int:
        if not self.is_legacy:
            return self.header.max_timestamp_ms
        if self.magic == 0:
            return NO_TIMESTAMP
        return int(_TIMESTAMP.unpack_from(self.view, LOG_OVERHEAD + _LEGACY.size)[0])

    @property
    def timestamp_type(self) -> str:
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self._attributes & LOG_APPEND_TIME else "CreateTime"

    @property
    def codec(self) -> str:
        """raises  DumpError for a number without a codec"""
        number = self._attributes & CODEC_MASK
        if number >= len(CODECS):
            raise DumpError(f"Unknown compression type id: {number}")
        return CODECS[number]

    @property
    def _attributes(self) -> int:
        return self._legacy[1] if self.is_legacy else self.header.attributes

    @property
    def is_valid(self) -> bool:
        """Whether the checksum fits the bytes."""
        if self.is_legacy:
            return self.checksum == zlib.crc32(self.view[_CRC_START : self.size])
        return self.size >= BATCH_OVERHEAD and has_valid_crc(self.header)

    @property
    def is_control(self) -> bool:
        return not self.is_legacy and self.header.is_control

    def records(self) -> Iterator[DumpedRecord]:
        """The records, as far as they can be decoded.

        raises  DumpError
        """
        try:
            if self.is_legacy:
                entry = self.view[: self.size]
                records = decode_legacy_records(entry)
                for record, checksum in zip(records, record_checksums(entry), strict=True):
                    yield DumpedRecord(record, checksum)
            else:
                for record in decode_records(self.header):
                    yield DumpedRecord(record, None)
        except BrokerError as error:
            raise DumpError(error.message or str(error)) from error


def iterate_stored_batches(
    descriptor: int, path: str, end: int, start: int = 0
) -> Iterator[StoredBatch]:
    """The batches from `start` on, up to `end` or to one that is cut short there.

    descriptor  of the open file
    raises      DumpError for a length that no batch has; OSError
    memory      one batch
    """
    position = start
    while position < end - HEADER_BYTES:
        header = os.pread(descriptor, HEADER_BYTES, position)
        if len(header) < HEADER_BYTES:
            raise DumpError(f"Failed to read `log header` from file channel of {path}")
        _, length = _START.unpack_from(header)
        if length < LENGTH_MIN:
            raise DumpError(
                f"Found record size {length} smaller than minimum record overhead ({LENGTH_MIN}) "
                f"in file {path}."
            )
        size = length + LOG_OVERHEAD
        if position > end - size:
            return
        data = os.pread(descriptor, size, position)
        # Read by the fields of a header, which may be longer than what its length says.
        view = memoryview(data if size >= BATCH_OVERHEAD else data.ljust(BATCH_OVERHEAD, b"\0"))
        yield StoredBatch(view, size, position)
        position += size
