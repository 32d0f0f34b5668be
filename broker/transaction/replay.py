"""Replays the records of a `__transaction_state` partition: what a coordinator loads.

Pure.  The last record of an id counts.  Records of other kinds are skipped and counted; unreadable
records are skipped and reported.  Differs from Kafka, where nothing after the first unreadable
record is loaded.

Source: Kafka's TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.broker.transaction.metadata import TransactionMetadata
from odradek.broker.transaction.records import read_key, read_value
from odradek.protocol.records.record import Record


class TransactionReplay:
    """The transactional ids of a partition while its log is loaded."""

    def __init__(self) -> None:
        self.ids: dict[str, TransactionMetadata] = {}
        self.wait_ms = 0
        self.misplaced = 0
        self.unknown_records = 0
        self.unreadable_count = 0
        self.first_unreadable = ""
        """Offset and reason."""

    def apply(self, record: Record, producer_id: int | None = None) -> None:
        """Apply one record.

        raises  DecodeError if it is unreadable
        """
        transactional_id = read_key(record.key)
        if transactional_id is None:
            self.unknown_records += 1
        elif record.value is None:
            self.ids.pop(transactional_id, None)
        else:
            self.ids[transactional_id] = TransactionMetadata(
                transactional_id, read_value(record.value)
            )

    def skip(
        self, first_offset: int, next_offset: int, reason: str, records: Iterable[Record] = ()
    ) -> None:
        """Skip unreadable records."""
        if not self.unreadable_count:
            self.first_unreadable = f"offset {first_offset}: {reason}"
        self.unreadable_count += 1

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Nothing: no transaction writes to this topic."""

    def release(self) -> None:
        """Nothing: the ids use no memory that is counted."""
