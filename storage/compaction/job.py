"""A cleaning job for one log, and its result: values between processes.

The event loop's process decides (`candidates`), a worker process reads the segments and writes
`.cleaned` files (`clean_log`), and the event loop's process puts these into place
(`Log.replace_segments`).

Source: Kafka's LogCleaner, LogToClean, CleanerStats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.producers.producer_state import ProducerStates
from odradek.storage.segments.segments import CleanedGroup


class ActiveProducer(NamedTuple):
    """A producer that the log still knows: its last batch is kept, if need be without records.

    There may be very many of them, and the event loop makes these.
    """

    producer_id: int
    producer_epoch: int
    last_data_offset: int
    """Offset of its last record; -1: it has only written markers."""


@dataclass(frozen=True, slots=True)
class CleaningJob:
    """One log to clean; everything that the worker must know besides the files."""

    directory: str
    """The partition's folder."""
    base_offsets: tuple[int, ...]
    """The closed segments from the log's start up to `first_uncleanable_offset`."""
    log_start_offset: int
    first_dirty_offset: int
    """Records below it were cleaned before."""
    first_uncleanable_offset: int
    """Exclusive: base offset of the first segment that must not be touched."""
    now_ms: int
    """Wall time at which the job begins."""
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    map_entries_max: int
    """Bounds the worker's memory: how many different keys one cleaning may look at."""
    bytes_per_second_max: float
    """Reads and writes together; infinity for no throttle."""
    truncation_count: int
    """`Log.truncation_count` when the job was made."""
    later_aborts: tuple[AbortedTransaction, ...]
    """Aborted transactions with data below `first_uncleanable_offset` and their marker after it
    (`reading.aborts_after`).  The index of the active segment is in memory, so the worker cannot
    read them, and without them their data would count as committed."""
    active_producers: tuple[ActiveProducer, ...] = ()


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """What was done."""

    groups: tuple[CleanedGroup, ...]
    end_offset: int
    """Exclusive: the next cleaning's first dirty offset."""
    read_bytes: int
    written_bytes: int
    read_records: int
    kept_records: int
    elapsed_ms: int


def active_producers(states: ProducerStates) -> tuple[ActiveProducer, ...]:
    """The producers of a log, whose last batches must be kept.

    cost    0.5 us each
    source  Kafka's UnifiedLog.lastRecordsOfActiveProducers
    """
    return tuple(
        [
            ActiveProducer(entry.producer_id, entry.producer_epoch, entry.last_offset)
            for entry in states.entries.values()
        ]
    )
