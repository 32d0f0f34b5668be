"""What a log must be, whatever has happened to it: order, leader epochs, producers, holes."""

from __future__ import annotations

from odradek.storage.log.log import Log
from tests.sim.compacted_table import CompactedTable
from tests.sim.process import Process
from tests.sim.stored_batches import ProducerView, StoredBatch, stored_batches


def is_in_gap(log: Log, start_offset: int, end_offset: int) -> bool:
    """Whether recovery has noted the hole between two offsets, and the replica has to ask."""
    return any(
        gap.start_offset <= start_offset and start_offset < gap.end_offset <= end_offset
        for gap in log.gaps
    )


def wrong_log(process: Process, log: Log, table: CompactedTable | None) -> str | None:
    """What is wrong with a log; None: leader epochs and producer state are those of its records.

    What is missing between two batches must be superseded (`table`), or noted by recovery as what
    a power cut may have taken.
    """
    batches = stored_batches(process, log, 0)
    expected, epoch = log.log_start_offset, -1
    for stored in batches:
        if stored.base_offset < expected:
            return f"offset {stored.base_offset} follows {expected - 1}"
        why = _wrong_hole(log, table, expected, stored.base_offset)
        if why is not None:
            return why
        expected = stored.next_offset
        if stored.leader_epoch < epoch:
            return f"leader epoch {stored.leader_epoch} follows {epoch}"
        epoch = stored.leader_epoch
    why = _wrong_hole(log, table, expected, log.end_offset)
    if why is not None or expected > log.end_offset:
        return why or f"its records end at {expected}"
    is_whole = table is None and log.segment_gap is None
    return _wrong_epochs(log, batches, is_whole=is_whole) or _wrong_producers(
        log, batches, is_whole=is_whole
    )


def _wrong_hole(
    log: Log, table: CompactedTable | None, start_offset: int, end_offset: int
) -> str | None:
    if start_offset >= end_offset or is_in_gap(log, start_offset, end_offset):
        return None
    if table is not None:
        return table.wrong_hole(start_offset, end_offset)
    return f"offset {end_offset} follows {start_offset - 1}"


def _wrong_epochs(log: Log, batches: list[StoredBatch], *, is_whole: bool) -> str | None:
    """In a log with holes the first records of an epoch may be missing."""
    epochs: dict[int, int] = {}
    for stored in batches:
        epochs.setdefault(stored.leader_epoch, stored.base_offset)
    entries = {entry.epoch: entry.start_offset for entry in log.leader_epochs.entries}
    wrong = f"epochs {entries}, by its records {epochs}"
    for epoch, start in epochs.items():
        entry = entries.get(epoch)
        if entry is None or entry > start or (is_whole and entry != start):
            return wrong
    is_future = log.leader_epochs.epoch_of(log.end_offset)
    if is_whole and any(epoch not in epochs and is_future < epoch for epoch in entries):
        return wrong
    return None


def _wrong_producers(log: Log, batches: list[StoredBatch], *, is_whole: bool) -> str | None:
    """In a log with holes more may be known of a producer than its records say."""
    producers: dict[int, ProducerView] = {}
    for stored in batches:
        if stored.producer_id >= 0:
            before = producers.get(stored.producer_id, ProducerView())
            producers[stored.producer_id] = before.after(stored)
    states = {
        producer_id: ProducerView(
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.current_txn_first_offset,
        )
        for producer_id, entry in log.producer_states.entries.items()
    }
    if is_whole:
        is_right = states == producers
    else:
        is_right = all(
            producer_id in states and states[producer_id][:2] >= view[:2]
            for producer_id, view in producers.items()
        )
    return None if is_right else f"producers {states}, by its records {producers}"
