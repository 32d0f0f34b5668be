"""EndTxn (key 26): commits or aborts a transaction.

    3   flexible encoding (KIP-482)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890)
    5   the epoch rises with each transaction and is in the response (KIP-890)

Source: kafka.apache.org/protocol, EndTxn.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = field("string", "0+")
    producer_id: int = field("int64", "0+")
    producer_epoch: int = field("int16", "0+")
    committed: bool = field("bool", "0+")


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    producer_id: int = field("int64", "5+", default=-1)
    producer_epoch: int = field("int16", "5+", default=-1)
