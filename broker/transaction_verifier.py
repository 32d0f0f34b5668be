"""Asks the transaction coordinator whether partitions belong to a transaction (KIP-890).

The leader of a partition asks before the first batch of a transaction is appended, so that no batch
opens a transaction of which the coordinator does not know, and which nothing would ever end.

Source: Kafka's AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending

PartitionErrors = Mapping[TopicPartition, ErrorCode]


class VerifiedTransaction(NamedTuple):
    """What the coordinator is asked: whether the partitions belong to this transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds_partitions: bool = False
    """Add them when they do not (transactions of version 2: Produce from version 12 on,
    TxnOffsetCommit from version 5 on)."""


class TransactionVerifier(Protocol):
    """Finds the coordinator of a transactional id and asks it, here or on another broker."""

    def verify(self, transaction: VerifiedTransaction) -> Pending[PartitionErrors]:
        """The errors of AddPartitionsToTxn by partition; one without an error is verified.

        It is done within request.timeout.ms and never fails: NETWORK_EXCEPTION when the coordinator
        does not respond, COORDINATOR_NOT_AVAILABLE when there is none.
        """


_UNVERIFIED: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


RETRY_MS: Final = 20
"""Between two attempts to add partitions while the last transaction is completed;
add.partitions.to.txn.retry.backoff.ms of Kafka 4."""
RETRIES_MS_MAX: Final = 100
"""add.partitions.to.txn.retry.backoff.max.ms"""


def client_error(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The error of a verification as a client of the version knows it.

    knows_abortable  the version has TRANSACTION_ABORTABLE: Produce from 11, TxnOffsetCommit from 4
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error


def produce_error(
    error: ErrorCode, *, knows_abortable: bool, adds_partitions: bool = False
) -> BrokerError:
    """The error of a produced batch whose transaction was not verified.

    adds_partitions  the client knows CONCURRENT_TRANSACTIONS: Produce from 12
    """
    code = client_error(error, knows_abortable=knows_abortable)
    if code is ErrorCode.INVALID_TXN_STATE:
        return BrokerError(code, "Partition was not added to the transaction")
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and adds_partitions:
        return BrokerError(code)
    if code in _UNVERIFIED:
        # Older clients retry after this one, without looking for another leader.
        return BrokerError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}",
        )
    return BrokerError(code)
