"""DescribeTransactions (key 65): shows the state of transactional ids.

Introduced by KIP-664.

Source: kafka.apache.org/protocol, DescribeTransactions.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[str] = field(["string"], "0+")


@nested
class TopicData:
    topic: str = field("string", "0+")
    partitions: list[int] = field(["int32"], "0+")


@nested
class TransactionState:
    error_code: int = field("int16", "0+")
    transactional_id: str = field("string", "0+")
    transaction_state: str = field("string", "0+")
    transaction_timeout_ms: int = field("int32", "0+")
    transaction_start_time_ms: int = field("int64", "0+")
    """-1 if no transaction is open."""
    producer_id: int = field("int64", "0+")
    producer_epoch: int = field("int16", "0+")
    topics: list[TopicData] = field([TopicData], "0+")


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    transaction_states: list[TransactionState] = field([TransactionState], "0+")
