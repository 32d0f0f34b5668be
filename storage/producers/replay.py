"""Brings the producer state up to date with batches that are in the log.

Source: Kafka's UnifiedLog.rebuildProducerState, ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.protocol.records.batch import RecordBatch
from odradek.storage.files.batch_scan import iterate_batches
from odradek.storage.indexes.index_file import IndexUnready
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segments import Segments

RECALLED_BYTES: Final = 96 << 10
"""Five batches of a Java producer have 80 KiB."""
RECALLED_MS: Final = 5 * 60_000
"""Producers give up after 2 minutes (delivery.timeout.ms)."""


def apply_batch(
    segment: Segment, states: ProducerStates, batch: RecordBatch, base_offset: int
) -> None:
    """A batch was appended to `segment`: update producer state and transaction index.

    raises  BrokerError CORRUPT_MESSAGE when the record of a marker is damaged
    """
    aborted = states.apply(batch, base_offset)
    if aborted is not None:
        segment.aborted.append(aborted)


def recall(segments: Segments, states: ProducerStates, now_ms: int) -> None:
    """Bring the last five batches of each producer into a state that was loaded from a snapshot.

    Differs from Kafka, which knows the last batch only after a clean stop, and refuses the ones
    before it when they are sent again.  They are looked for in the last `RECALLED_BYTES` before the
    snapshot's offset, if a producer has written in the last `RECALLED_MS`.

    raises  OSError
    cost    3 us a batch
    """
    entries = states.entries.values()
    if any(entry.batches and entry.last_timestamp_ms > now_ms - RECALLED_MS for entry in entries):
        states.recall(list(_last_batches(segments, states.last_map_offset)))


def _last_batches(segments: Segments, end_offset: int) -> Iterator[RecordBatch]:
    """Batches of at most `RECALLED_BYTES`, in the order of the log."""
    parts: list[tuple[Segment, int]] = []
    left = RECALLED_BYTES
    for segment in reversed(list(segments)):
        if left > 0 and segment.base_offset < end_offset:
            parts.append((segment, _start_of_last(segment, left)))
            left -= segment.size
    for segment, position in reversed(parts):
        for _, batch in iterate_batches(segment.handle.use(), position, segment.size):
            if batch.base_offset >= end_offset:
                return
            yield batch


def _start_of_last(segment: Segment, size: int) -> int:
    """Where a batch begins, about `size` bytes before the end of a segment."""
    if segment.size <= size:
        return 0
    try:
        offset = segment.bound_after(segment.size - size)
        batch = None if offset is None else segment.find(offset)
    except IndexUnready:
        batch = None
    return segment.size if batch is None else batch.position


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
