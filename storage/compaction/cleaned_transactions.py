"""Which transactions the cleaner is in the midst of, and which of their markers are still needed.

A marker may go once no batch of its transaction is left before it.

Source: Kafka's CleanedTransactionMetadata; KIP-534.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.protocol.records.batch import CONTROL, TRANSACTIONAL, RecordBatch
from odradek.protocol.records.control import parse_end_marker
from odradek.storage.indexes.txn_index import AbortedTransaction


@dataclass(slots=True)
class _Aborted:
    transaction: AbortedTransaction
    is_seen: bool = False
    """Whether a batch of it was met."""


class CleanedTransactions:
    """Is shown every batch of a log, in order."""

    __slots__ = ("_aborted", "_committed", "_retained", "_waiting")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        """`aborted` are those that have batches, or a marker, in what will be shown."""
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self._retained: list[AbortedTransaction] = []

    def take_retained(self) -> list[AbortedTransaction]:
        """Aborted ones whose marker stays because of batches that were still there, once.

        They are noted in the transaction index of the segment that holds the marker.
        """
        retained, self._retained = self._retained, []
        return retained

    def may_discard(self, batch: RecordBatch) -> bool:
        """Whether the batch is not needed: data of an aborted transaction, or an idle marker.

        raises  INVALID_RECORD
        """
        if not batch.attributes & (TRANSACTIONAL | CONTROL):
            return False
        while self._waiting and self._waiting[-1].first_offset <= batch.last_offset:
            entry = self._waiting.pop()
            former = self._aborted.get(entry.producer_id)
            if former is None or former.transaction.last_offset < entry.first_offset:
                self._aborted[entry.producer_id] = _Aborted(entry)
        if batch.is_control:
            return self._may_discard_marker(batch)
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None or aborted.transaction.last_offset < batch.base_offset:
            self._committed.add(batch.producer_id)
            return False
        aborted.is_seen = True
        return True

    def _may_discard_marker(self, batch: RecordBatch) -> bool:
        if batch.record_count == 0:
            return True
        marker = parse_end_marker(batch)
        if marker is None:
            return False
        producer_id = batch.producer_id
        if marker.is_commit:
            if producer_id not in self._committed:
                return True
            self._committed.discard(producer_id)
            return False
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or not aborted.is_seen:
            return True
        self._retained.append(aborted.transaction)
        return False
