"""What a cleaning job has to say of a log that its worker cannot read from the segments.

Source: Kafka's UnifiedLog.lastRecordsOfActiveProducers, collectAbortedTransactions.
"""

from __future__ import annotations

from odradek.storage.compaction.job import ActiveProducer
from odradek.storage.indexes.txn_index import AbortedTransaction
from odradek.storage.log.log import Log


def active_producers(log: Log) -> tuple[ActiveProducer, ...]:
    """The producers that the log knows.

    cost  0.5 us for each
    """
    return tuple(
        [
            ActiveProducer(entry.producer_id, entry.producer_epoch, entry.last_offset)
            for entry in log.producer_states.entries.values()
        ]
    )


def later_aborts(log: Log, first_uncleanable_offset: int) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that begin below the offset and whose marker lies behind it.

    first_uncleanable_offset  base of a segment, not behind the last stable offset
    raises                    OSError; CorruptBatch
    """
    found = []
    for segment in log.segments[log.segment_number(first_uncleanable_offset) :]:
        for entry in segment.txn_index.entries:
            if entry.first_offset < first_uncleanable_offset:
                found.append(entry)
            if entry.last_stable_offset >= first_uncleanable_offset:
                # It was noted while all before was stable: later ones begin behind.
                return tuple(found)
    return tuple(found)
