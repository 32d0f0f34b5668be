"""Reads the log of a `__consumer_offsets` partition, in steps short enough for the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.group.apply import Loading
from protocol.records.batch import RecordBatch, iterate_batches
from protocol.records.control import parse_end_marker
from protocol.records.record import decode_records
from storage.log import Log

READ_BYTES: Final = 256 * 1024
STEP_RECORDS: Final = 100
"""Half a millisecond of work."""


def load_steps(log: Log, loading: Loading, end_offset: int) -> Iterator[None]:
    """Apply the records below `end_offset`, giving way again and again.

    raises  OSError; BrokerError (a damaged batch), DecodeError (a record of another layout)
    """
    offset = log.log_start_offset
    while offset < end_offset:
        slice_ = log.read(offset, READ_BYTES, up_to_offset=end_offset)
        if slice_ is None:
            return
        try:
            data = slice_.read()
        finally:
            slice_.release()
        next_offset = offset
        for batch in iterate_batches(memoryview(data), allow_partial=True):
            yield from _apply_batch(batch, loading, offset)
            next_offset = batch.next_offset
        if next_offset <= offset:
            return
        offset = next_offset


def _apply_batch(batch: RecordBatch, loading: Loading, start_offset: int) -> Iterator[None]:
    if batch.is_control:
        marker = parse_end_marker(batch)
        if marker is not None:
            loading.end_transaction(batch.producer_id, is_commit=marker.is_commit)
        return
    producer_id = batch.producer_id if batch.is_transactional else None
    for number, record in enumerate(decode_records(batch), start=1):
        if record.offset >= start_offset:
            loading.apply(record, producer_id)
        if number % STEP_RECORDS == 0:
            yield
    yield
