"""AddOffsetsToTxn (key 25): adds the offsets of a group to a transaction.

    3   flexible encoding (KIP-482)
    4   the client understands TRANSACTION_ABORTABLE (KIP-890)

Source: kafka.apache.org/protocol, AddOffsetsToTxn.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = field("string", "0+")
    producer_id: int = field("int64", "0+")
    producer_epoch: int = field("int16", "0+")
    group_id: str = field("string", "0+")


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
