"""The state of a transactional id, as stored in `__transaction_state`.

Key: int16 record type 0, then the id.  Value: int16 version, then the fields; no value at all
deletes the id.

    value 1   flexible encoding; Kafka 4 adds the tagged fields (KIP-890)

Source: TransactionLogKey and TransactionLogValue of Kafka's transaction coordinator.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(versions="0")
class TransactionLogKey:
    transactional_id: str = field("string", "0+")


@nested
class PartitionsSchema:
    topic: str = field("string", "0+")
    partition_ids: list[int] = field(["int32"], "0+")


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: int = field("int64", "0+")
    previous_producer_id: int = field("int64", "1+", tag=0, default=-1)
    next_producer_id: int = field("int64", "1+", tag=1, default=-1)
    producer_epoch: int = field("int16", "0+")
    next_producer_epoch: int = field("int16", "1+", tag=3, default=-1)
    transaction_timeout_ms: int = field("int32", "0+")
    transaction_status: int = field("int8", "0+")
    """0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete abort, 6
    dead, 7 prepare epoch fence."""
    transaction_partitions: list[PartitionsSchema] | None = field(
        [PartitionsSchema], "0+", nullable="0+"
    )
    """None if there are none."""
    transaction_last_update_timestamp_ms: int = field("int64", "0+")
    transaction_start_timestamp_ms: int = field("int64", "0+")
    """-1 if no transaction is open."""
    client_transaction_version: int = field("int16", "1+", tag=2, default=0)
