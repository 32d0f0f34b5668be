"""EndTxn (key 26): commits or aborts a transaction.

    3   flexible encoding (KIP-482)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890)
    5   the epoch rises with each transaction and is in the response (KIP-890)

Source: kafka.apache.org/protocol, EndTxn.
"""

from __future__ import annotations

from odradek.protocol.schema import BOOL, INT16, INT32, INT64, STRING, field, message


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    committed: bool = field(BOOL, "0+")


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
    producer_id: int = field(INT64, "5+", default=-1)
    producer_epoch: int = field(INT16, "5+", default=-1)
