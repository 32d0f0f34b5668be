"""AddOffsetsToTxn (key 25): adds the offsets of a group to a transaction.

    3   flexible encoding (KIP-482)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890)

Source: kafka.apache.org/protocol, AddOffsetsToTxn.
"""

from __future__ import annotations

from odradek.protocol.schema import INT16, INT32, INT64, STRING, field, message


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    group_id: str = field(STRING, "0+")


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+")
