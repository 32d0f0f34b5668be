"""The records of `__transaction_state`, and what a coordinator loads from them.

    record           key                              value
    transactional id int16 0, id                      int16 0 or 1, fields
    tombstone        as above                         none

The fields are those of `protocol/stored/transaction_log`; version 1 of the value has those of
transactions of version 2.

The last record of an id counts.  Records of other kinds are skipped and counted; unreadable records
are skipped and reported.  Differs from Kafka, where nothing after the first unreadable record is
loaded.

Pure.  Source: Kafka's TransactionLog (4.3's for version 1),
TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from odradek.broker.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    TV_2,
    TransactionMetadata,
    TransactionState,
    TxnTransitMetadata,
)
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.decode_error import DecodeError
from odradek.protocol.records.record import Record
from odradek.protocol.stored.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from odradek.protocol.topic_partition import TopicPartition, by_topic

VERSION: Final = Struct(">h")
KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0
VALUE_NEWEST: Final = 1
STORED_STATES: Final = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)
_FIRST_END: Final = TransactionState.PREPARE_COMMIT


def transaction_record(
    transactional_id: str,
    metadata: TxnTransitMetadata | None,
    wall_ms: int,
    *,
    transaction_version: int = 0,
) -> Record:
    """The record of an id; None makes its tombstone.

    transaction_version  that is finalized: from 1 on, the value has version 1.  The end of a
                         transaction of version 2 has it always
    Topics and partitions are in the order in which they were added; in Kafka, in that of a hash
    set.
    """
    key = TransactionLogKey(transactional_id=transactional_id)
    key_bytes = VERSION.pack(KEY_VERSION) + encoder(TransactionLogKey, KEY_VERSION)(key)
    if metadata is None:
        return Record(key_bytes, None, timestamp_ms=wall_ms)
    topics = by_topic(metadata.partitions)
    is_empty = metadata.state is TransactionState.EMPTY
    is_end_v2 = metadata.client_version >= TV_2 and metadata.state >= _FIRST_END
    version = VALUE_NEWEST if transaction_version >= 1 or is_end_v2 else VALUE_VERSION
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.last_producer_id,
        next_producer_id=metadata.next_producer_id,
        client_transaction_version=metadata.client_version,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if is_empty
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    encoded = VERSION.pack(version) + encoder(TransactionLogValue, version)(value)
    return Record(key_bytes, encoded, timestamp_ms=wall_ms)


def read_key(data: bytes | None) -> str | None:
    """The transactional id of a record; None for a record of another kind.

    raises  DecodeError
    """
    if data is None or len(data) < VERSION.size or VERSION.unpack_from(data)[0] != KEY_VERSION:
        return None
    key, _ = decoder(TransactionLogKey, KEY_VERSION)(memoryview(data), VERSION.size)
    transactional_id: str = key.transactional_id
    return transactional_id


def read_value(data: bytes) -> TxnTransitMetadata:
    """Read the stored state of a transactional id.

    raises  DecodeError, also for a version or a state that Kafka 3.9 does not know
    """
    if len(data) < VERSION.size:
        raise DecodeError("a value without a version")
    (version,) = VERSION.unpack_from(data)
    if not VALUE_VERSION <= version <= VALUE_NEWEST:
        raise DecodeError(f"an unknown version of the value: {version}")
    value, _ = decoder(TransactionLogValue, version)(memoryview(data), VERSION.size)
    if value.transaction_status not in STORED_STATES:
        raise DecodeError(f"an unknown state: {value.transaction_status}")
    return TxnTransitMetadata(
        producer_id=value.producer_id,
        last_producer_id=value.previous_producer_id,
        producer_epoch=value.producer_epoch,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions={
            TopicPartition(topic.topic, index): None
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        },
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


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
