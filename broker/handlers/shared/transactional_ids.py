"""What the requests about transactional ids have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.handlers.shared.handler import Context
from odradek.protocol.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from odradek.broker.transaction.shard import TransactionShard


def shard_of(context: Context, transactional_id: str) -> TransactionShard:
    """The shard of an id, ready for requests.

    raises  BrokerError INVALID_REQUEST for an empty id, and those of
            `TransactionCoordinator.shard_of`
    """
    if not transactional_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    return context.services.transactions.shard_of(transactional_id)


def error_for(error: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """The error for a client, which may be too old for PRODUCER_FENCED (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
