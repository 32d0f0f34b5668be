"""ListTransactions (key 66): lists the transactional ids that a broker coordinates.

    1   filter by duration (KIP-994)
    2   filter by a pattern of the id (KIP-1152)

Introduced by KIP-664.

Source: kafka.apache.org/protocol, ListTransactions.
"""

from __future__ import annotations

from odradek.protocol.schema import field, message, nested


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[str] = field(["string"], "0+")
    """Empty for all."""
    producer_id_filters: list[int] = field(["int64"], "0+")
    """Empty for all."""
    duration_filter_ms: int = field("int64", "1+", default=-1)
    """At least this long open; -1 for all."""
    transactional_id_pattern: str | None = field("string", "2+", nullable="2+", default=None)


@nested
class TransactionState:
    transactional_id: str = field("string", "0+")
    producer_id: int = field("int64", "0+")
    transaction_state: str = field("string", "0+")


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+")
    unknown_state_filters: list[str] = field(["string"], "0+")
    transaction_states: list[TransactionState] = field([TransactionState], "0+")
