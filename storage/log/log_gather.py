"""Several plain batches at once: the short way of what `log_append` does for every kind.

Plain means: no control batch, room in the segment, an epoch that is known, nothing that the
producer state objects to.  Whatever is not plain takes the long way, from the beginning: before
the write nothing but the memory of the batches has changed, and that is set again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.protocol.errors import BrokerError
from odradek.protocol.records.batch import CONTROL, RecordBatch, assign_offset
from odradek.storage.log import log_append
from odradek.storage.producers.producer_state import ProducerEntry, check_append, entry_after

if TYPE_CHECKING:
    from odradek.storage.log.log import Appended, Log


def append_plain(
    log: Log, batches: Sequence[RecordBatch], leader_epoch: int
) -> list[Appended | BrokerError] | None:
    """One write for all batches; None when one of them is not plain, and nothing has happened.

    cost  1 us a batch without a producer id, 2.5 us with one, and the write
    """
    if leader_epoch != log.leader_epochs.latest_epoch:
        return None
    segment = log.active
    offset = log.end_offset
    newest_ms = -1
    size = 0
    entries: dict[int, ProducerEntry] = {}
    for batch in batches:
        if batch.attributes & CONTROL:
            return None
        if batch.producer_id >= 0 and not _is_next(log, batch, offset, entries):
            return None
        if batch.max_timestamp_ms > newest_ms:
            newest_ms = batch.max_timestamp_ms
        assign_offset(batch.view, offset, leader_epoch)
        offset += batch.last_offset_delta + 1
        size += batch.size
    if not log.limits.allow(segment.size + size, offset - 1, newest_ms, len(batches) - 1):
        return None
    try:
        segment.handle.use().append([batch.view for batch in batches])
    except OSError as error:
        return [log_append.undo_write(log, error)] * len(batches)
    return _commit(log, batches)


def _is_next(log: Log, batch: RecordBatch, offset: int, entries: dict[int, ProducerEntry]) -> bool:
    """Whether the producer may append it, given what else it appends in the same write."""
    producer_id = batch.producer_id
    if batch.base_sequence < 0:
        return False
    entry = entries.get(producer_id) or log.producer_states.entries.get(producer_id)
    try:
        if check_append(entry, batch, from_client=True) is not None:
            return False
    except BrokerError:
        return False
    entries[producer_id] = entry_after(entry, batch, offset)
    return True


def _commit(log: Log, batches: Sequence[RecordBatch]) -> list[Appended | BrokerError]:
    """Take the batches, which were written, into the log's state."""
    segment, tail, states = log.active, log.tail, log.producer_states
    interval_bytes = log.limits.index_interval_bytes
    positions, last_offsets = tail.positions, tail.last_offsets
    offset = log.end_offset
    results: list[Appended | BrokerError] = []
    for batch in batches:
        position, size = segment.size, batch.size
        last_offset = offset + batch.last_offset_delta
        max_timestamp_ms = batch.max_timestamp_ms
        segment.size = position + size
        if position == 0 or segment.bytes_since_index > interval_bytes:
            segment.note_batch(position, size, last_offset, max_timestamp_ms, interval_bytes)
        else:
            segment.bytes_since_index += size
            if max_timestamp_ms > segment.max_timestamp_ms:
                segment.max_timestamp_ms = max_timestamp_ms
                segment.max_timestamp_offset = last_offset
        positions.append(position)
        last_offsets.append(last_offset)
        if batch.producer_id >= 0:
            states.apply(batch, offset)
        results.append(log.answer(offset, last_offset, max_timestamp_ms, batch))
        offset = last_offset + 1
    log.end_offset = offset
    states.last_map_offset = offset
    log_append.settle(log, segment)
    return results
