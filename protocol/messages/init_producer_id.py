"""InitProducerId (key 22): gives a producer its id and epoch, and fences its predecessors.

    2   flexible encoding (KIP-482)
    3   a producer that has an id asks for the next epoch (KIP-360)
    4   the client understands PRODUCER_FENCED (KIP-588)
    5   the client understands TRANSACTION_ABORTABLE (KIP-890)
    6   two-phase commit (KIP-939), which no release serves yet

Source: kafka.apache.org/protocol, InitProducerId.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    transactional_id: str | None = field("string", "0+", nullable="0+")
    """None for a producer that is only idempotent."""
    transaction_timeout_ms: int = field("int32", "0+")
    producer_id: int = field("int64", "3+", default=-1)
    """-1 for a new producer."""
    producer_epoch: int = field("int16", "3+", default=-1)
    """-1 for a new producer."""
    enable_2pc: bool = field("bool", "6+", default=False)
    keep_prepared_txn: bool = field("bool", "6+", default=False)


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    producer_id: int = field("int64", "0+", default=-1)
    producer_epoch: int = field("int16", "0+")
    ongoing_txn_producer_id: int = field("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = field("int16", "6+", default=-1)
