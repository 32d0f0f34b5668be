"""Loads a partition of an internal topic, in steps short enough for the event loop.

Segments are read from their start, without their indexes.  Only what is unreadable is skipped:

    a record with an unknown layout in a valid batch    this record
    a batch with an invalid header or checksum          up to the next batch with a valid checksum

The checksum does not cover the base offset; a base offset that does not follow the batch before it
is corrected.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, Protocol

from odradek.protocol.decode_error import DecodeError
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    RecordBatch,
    has_valid_crc,
)
from odradek.protocol.records.control import parse_end_marker
from odradek.protocol.records.legacy import parse_entry
from odradek.protocol.records.record import Record, decode_records
from odradek.storage.files.descriptors import FileSlice
from odradek.storage.files.disk_errors import is_out_of_descriptors
from odradek.storage.log.log import Log
from odradek.storage.segments.segment import Segment

READ_BYTES: Final = 128 * 1024
LEGACY_BYTES_MAX: Final = 1 << 20
"""Size of a message set, to tell it from damage."""
STEP_RECORDS: Final = 100
"""Half a millisecond of work."""
RETRY_MS: Final = 500
_MAGIC_BYTE: Final = bytes([MAGIC])
_START: Final = Struct(">qi")
"""Base offset and length."""


class Replay(Protocol):
    """The state of a coordinator that its records make, while its log is loaded."""

    wait_ms: int
    """How long the next step must wait, since the log cannot be read now."""
    misplaced: int
    """Batches whose base offset was corrected."""

    def apply(self, record: Record, producer_id: int | None = None) -> None:
        """Apply one record; `producer_id` is that of its transaction.

        raises  DecodeError if it is unreadable
        """

    def skip(
        self, first_offset: int, next_offset: int, reason: str, records: Iterable[Record] = ()
    ) -> None:
        """Skip unreadable records, some of which could be decoded."""

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the end marker of a transaction whose records the log holds."""

    def release(self) -> None:
        """Give back what the state uses: the coordinator does not take it over."""


def load_steps(log: Log, replay: Replay) -> Iterator[None]:
    """Apply the records that the log holds now, yielding again and again.

    While no descriptor is left it asks for time and tries again.

    raises  OSError; BrokerError UNSUPPORTED_FOR_MESSAGE_FORMAT for message sets of magic 0 and 1
    """
    offset, end_offset = log.log_start_offset, log.end_offset
    while offset < end_offset:
        offset = max(offset, log.log_start_offset)
        segment = _segment_of(log, offset)
        try:
            segment.handle.use()
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            replay.wait_ms = RETRY_MS
            yield
            replay.wait_ms = 0
            continue
        held = FileSlice(segment.handle, 0, segment.size)
        try:
            offset = yield from _load_segment(log, segment, replay, offset)
        finally:
            held.release()


def _segment_of(log: Log, offset: int) -> Segment:
    return log.segments[log.segments.number_of(offset)]


def _end_offset(log: Log, segment: Segment) -> int:
    """Where the next segment begins, or the log ends."""
    bases = log.segments.base_offsets
    following = log.segments.number_of(segment.base_offset) + 1
    return bases[following] if following < len(bases) else log.end_offset


def _load_segment(
    log: Log, segment: Segment, replay: Replay, offset: int
) -> Generator[None, None, int]:
    """Apply what a segment holds from `offset` on; returns where to go on, which is within the
    segment if the cleaner has replaced it meanwhile."""
    reader = _SegmentReader(segment)
    end_offset = _end_offset(log, segment)
    is_seeking = offset > segment.base_offset
    position = 0
    while position < segment.size and _segment_of(log, segment.base_offset) is segment:
        batch = reader.batch_at(position)
        if batch is None:
            next_batch = yield from reader.find_batch(position + 1, end_offset)
            resumed = end_offset if next_batch is None else max(offset, next_batch[1].base_offset)
            if resumed > offset or not is_seeking:
                reason, records = reader.damage_at(position)
                replay.skip(offset, max(resumed, offset + 1), reason, records)
                offset = resumed
            position = segment.size if next_batch is None else next_batch[0]
            continue
        position += batch.size
        if is_seeking and batch.next_offset <= offset:
            yield
            continue
        if not is_seeking:
            following = reader.batch_at(position)
            replay.misplaced += _put_in_order(batch, following, offset, end_offset)
        is_seeking = False
        yield from _apply_batch(batch, replay, offset)
        offset = batch.next_offset
    return max(offset, end_offset) if position >= segment.size else offset


def _put_in_order(
    batch: RecordBatch, following: RecordBatch | None, offset: int, end_offset: int
) -> bool:
    """Give a batch that cannot be where it says the first offset that it can have.

    following   of two batches that overlap, this one is right if the other leaves a gap
    offset      at which the batch before it ends
    end_offset  at which its segment ends
    returns     whether it was changed
    """
    does_overlap = (
        following is not None
        and offset <= following.base_offset < batch.next_offset
        and batch.base_offset != offset
    )
    if offset <= batch.base_offset and batch.next_offset <= end_offset and not does_overlap:
        return False
    batch.base_offset = max(min(offset, end_offset - 1 - batch.last_offset_delta), 0)
    return True


class _SegmentReader:
    """The batches of a segment by their positions."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._data = b""
        self._start = 0
        """Position of `_data` in the file."""
        self._known: tuple[int, RecordBatch | None] = (-1, None)
        """The result of `batch_at` before: each batch is also looked at as the one that follows."""

    def _bytes(self, position: int, size: int) -> memoryview:
        """Fewer than `size` at the end of the file."""
        at = position - self._start
        if at < 0 or at + size > len(self._data):
            left = self._segment.size - position
            file = self._segment.handle.use()
            self._data = file.read_at(position, max(min(max(size, READ_BYTES), left), 0))
            self._start, at = position, 0
        return memoryview(self._data)[at : at + size]

    def _whole(self, position: int) -> RecordBatch | None:
        """The bytes of a possible batch, by the length in its header; None: it cannot be one."""
        head = self._bytes(position, BATCH_OVERHEAD)
        if len(head) < BATCH_OVERHEAD or head[MAGIC_POSITION] != MAGIC:
            return None
        _, length = _START.unpack_from(head)
        size = length + LOG_OVERHEAD
        if not BATCH_OVERHEAD <= size <= self._segment.size - position:
            return None
        return RecordBatch(self._bytes(position, size))

    def batch_at(self, position: int) -> RecordBatch | None:
        """The batch at a position; None when it is damaged."""
        cached_position, batch = self._known
        if cached_position != position:
            batch = self._whole(position)
            if batch is not None and not has_valid_crc(batch):
                batch = None
            self._known = position, batch
        return batch

    def find_batch(
        self, position: int, end_offset: int
    ) -> Generator[None, None, tuple[int, RecordBatch] | None]:
        """The next batch that is not damaged, and its position; None: there is none."""
        first_offset = self._segment.base_offset
        while position + BATCH_OVERHEAD <= self._segment.size:
            data = bytes(self._bytes(position, READ_BYTES))
            at = data.find(_MAGIC_BYTE, MAGIC_POSITION)
            while at >= 0:
                start = at - MAGIC_POSITION
                if start + _START.size <= len(data):
                    base_offset, _ = _START.unpack_from(data, start)
                    if first_offset <= base_offset < end_offset:
                        batch = self.batch_at(position + start)
                        if batch is not None:
                            return position + start, batch
                at = data.find(_MAGIC_BYTE, at + 1)
            position += max(len(data) - MAGIC_POSITION, 1)
            yield
        return None

    def damage_at(self, position: int) -> tuple[str, list[Record]]:
        """Describe the damage of a batch, and return those of its records that can be decoded.

        raises  BrokerError UNSUPPORTED_FOR_MESSAGE_FORMAT for a sound message set of magic 0 or 1
        """
        batch = self._whole(position)
        if batch is None:
            self._check_no_legacy(position)
            return f"the bytes at position {position} of the segment are not a batch", []
        records: list[Record] = []
        with suppress(BrokerError):
            records.extend(decode_records(batch))
        return "the checksum of a batch does not fit", records

    def _check_no_legacy(self, position: int) -> None:
        try:
            entry = parse_entry(self._bytes(position, LEGACY_BYTES_MAX))
        except BrokerError:
            return
        raise BrokerError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"a message set of magic {entry.magic}"
        )


def _apply_batch(batch: RecordBatch, replay: Replay, start_offset: int) -> Iterator[None]:
    first_offset = max(batch.base_offset, start_offset)
    try:
        if batch.is_control:
            marker = parse_end_marker(batch)
            if marker is not None:
                replay.end_transaction(batch.producer_id, is_commit=marker.is_commit)
            return
        producer_id = batch.producer_id if batch.is_transactional else None
        for number, record in enumerate(decode_records(batch), start=1):
            if record.offset >= start_offset:
                first_offset = record.offset + 1
                _apply_record(record, replay, producer_id)
            if number % STEP_RECORDS == 0:
                yield
    except BrokerError as error:
        reason = error.message or error.code.name
        replay.skip(first_offset, batch.next_offset, reason)
    yield


def _apply_record(record: Record, replay: Replay, producer_id: int | None) -> None:
    try:
        replay.apply(record, producer_id)
    except DecodeError as error:
        replay.skip(record.offset, record.offset + 1, str(error), (record,))
