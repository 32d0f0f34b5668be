"""Brings the producer state up to date with batches that are in the log.

Source: Kafka's UnifiedLog.rebuildProducerState, ProducerStateManager.
"""

from __future__ import annotations

from odradek.protocol.records.batch import RecordBatch
from odradek.storage.files.batch_scan import iterate_batches
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segments import Segments


def apply_batch(
    segment: Segment, states: ProducerStates, batch: RecordBatch, base_offset: int
) -> None:
    """A batch was appended to `segment`: update producer state and transaction index.

    raises  BrokerError CORRUPT_MESSAGE when the record of a marker is damaged
    """
    completed = states.apply(batch, base_offset)
    if completed is not None and completed.is_aborted:
        segment.note_aborted(
            AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                completed.last_stable_offset,
            )
        )


def replay(segments: Segments, states: ProducerStates, end_offset: int) -> None:
    """Apply the batches from `last_map_offset` up to `end_offset` to the producer state.

    Transaction indexes are not changed: they contain the transactions of these batches already.

    raises  OSError; CorruptBatch
    cost    reads everything in between
    """
    for number, segment in enumerate(segments):
        start_offset = states.last_map_offset
        is_last = number + 1 == len(segments)
        if segment.base_offset >= end_offset:
            break
        if not is_last and segments.base_offsets[number + 1] <= start_offset:
            continue
        try:
            first = segment.find(start_offset)
        except IndexUnready:
            position = 0
        else:
            if first is None:
                continue
            position = first.position
        for _, batch in iterate_batches(segment.handle.use(), position, segment.size):
            if batch.last_offset >= end_offset:
                break
            if batch.base_offset >= start_offset:
                states.apply(batch)
    states.advance_to(end_offset)
