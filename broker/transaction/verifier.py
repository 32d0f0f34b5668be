"""Asks the coordinator of a transactional id whether partitions are in its transaction (KIP-890).

Partitions that are to be added are tried again for a moment while the markers of the last
transaction are written: a producer of version 2 does not wait for them.

A coordinator on another broker gets one request at a time; what is to be verified meanwhile shares
the next one.  What waits is bounded by the connections of clients, of each of which one request is
served at a time.  Source: Kafka's AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.broker.interbroker.network_client import NetworkClients
from odradek.broker.topics import TRANSACTION_TOPIC, Topics
from odradek.broker.transaction.broker_clients import BrokerClients
from odradek.broker.transaction.context import TransactionContext
from odradek.broker.transaction.coordinator import TransactionCoordinator
from odradek.broker.transaction.metadata import TV_2
from odradek.broker.transaction_verifier import (
    RETRIES_MS_MAX,
    RETRY_MS,
    PartitionErrors,
    VerifiedTransaction,
)
from odradek.protocol.errors import BrokerError, ErrorCode, error_of
from odradek.protocol.topic_partition import TopicPartition, by_topic
from odradek.runtime.pending import Pending

if TYPE_CHECKING:
    from odradek.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )

ADD_PARTITIONS_TO_TXN_VERSION: Final = 5
TRANSACTIONS_MAX: Final = 100
"""Transactions that one request names."""

Verification = tuple[VerifiedTransaction, Pending[PartitionErrors]]


class _Channel:
    """The verifications that one coordinator is asked for."""

    def __init__(self) -> None:
        self.waiting: deque[Verification] = deque()
        self.is_in_flight = False

    def take(self) -> list[Verification]:
        """The next request: each transactional id once."""
        batch: dict[str, tuple[VerifiedTransaction, Pending[PartitionErrors]]] = {}
        while self.waiting and len(batch) < TRANSACTIONS_MAX:
            name = self.waiting[0][0].transactional_id
            if name in batch:
                break
            batch[name] = self.waiting.popleft()
        return list(batch.values())


class CoordinatorVerifier:
    """Verifies with the coordinator of this broker, or of another one.

    listener_name  over which brokers reach each other
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        topics: Topics,
        clients: NetworkClients,
        context: TransactionContext,
        *,
        broker_id: int,
        listener_name: str,
    ) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._context = context
        self._broker_id = broker_id
        self._clients = BrokerClients(
            clients,
            topics,
            listener_name=listener_name,
            client_id=f"broker-{broker_id}-add-partitions-to-txn-manager",
        )
        self._channels: dict[int, _Channel] = {}

    def verify(self, transaction: VerifiedTransaction) -> Pending[PartitionErrors]:
        """The error of each partition; see `TransactionVerifier`."""
        if not transaction.adds_partitions:
            return self._ask(transaction)
        until_ms = self._context.clock.monotonic_ms() + RETRIES_MS_MAX
        added: Pending[PartitionErrors] = Pending()

        def attempt() -> None:
            self._ask(transaction).on_done(asked)

        def asked(done: Pending[PartitionErrors]) -> None:
            is_late = self._context.clock.monotonic_ms() >= until_ms
            if is_late or ErrorCode.CONCURRENT_TRANSACTIONS not in done.result().values():
                added.settle_as(done)
            else:
                self._context.after(RETRY_MS, attempt)

        attempt()
        return added

    def _ask(self, transaction: VerifiedTransaction) -> Pending[PartitionErrors]:
        index = self._coordinator.partition_for(transaction.transactional_id)
        partition_image = self._topics.image().partition(TRANSACTION_TOPIC, index)
        leader = (
            -1
            if partition_image is None or partition_image.state is None
            else partition_image.state.leader
        )
        if leader == self._broker_id:
            return self._verify_here(transaction)
        if leader < 0:
            return _failed(transaction, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        verified: Pending[PartitionErrors] = Pending()
        channel = self._channels.setdefault(leader, _Channel())
        channel.waiting.append((transaction, verified))
        self._send(leader)
        return verified

    def _verify_here(self, transaction: VerifiedTransaction) -> Pending[PartitionErrors]:
        name, producer_id, epoch, named, adds_partitions = transaction
        partitions = dict.fromkeys(named)
        try:
            shard = self._coordinator.shard_of(name)
        except BrokerError as error:
            return _failed(transaction, error.code)
        if not adds_partitions:
            return Pending.of(shard.verify_partitions(name, producer_id, epoch, partitions))
        return shard.add_partitions(name, producer_id, epoch, partitions, client_version=TV_2).then(
            lambda error: dict.fromkeys(partitions, error)
        )

    def _send(self, broker_id: int) -> None:
        channel = self._channels[broker_id]
        if channel.is_in_flight:
            return
        batch = channel.take()
        if not batch:
            return
        channel.is_in_flight = True
        client = self._clients.of(broker_id)
        if client is None:
            lost: Pending[AddPartitionsToTxnResponse] = Pending.failed(
                BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            )
            self._responded(broker_id, batch, lost)
            return
        sent = client.send(_request(batch), ADD_PARTITIONS_TO_TXN_VERSION)
        sent.on_done(partial(self._responded, broker_id, batch))

    def _responded(
        self, broker_id: int, batch: list[Verification], done: Pending[AddPartitionsToTxnResponse]
    ) -> None:
        self._channels[broker_id].is_in_flight = False
        errors: dict[str, dict[TopicPartition, ErrorCode]] = {}
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            response = done.result()
        except BrokerError as error:
            failure = error.code
        else:
            failure = error_of(response.error_code) or failure
            for result in response.results_by_transaction:
                errors[result.transactional_id] = {
                    TopicPartition(topic.name, partition.partition_index): error_of(
                        partition.partition_error_code
                    )
                    for topic in result.topic_results
                    for partition in topic.results_by_partition
                }
        for transaction, verified in batch:
            partition_errors = errors.get(transaction.transactional_id, {})
            verified.resolve(
                {
                    partition: partition_errors.get(partition, failure)
                    for partition in transaction.partitions
                }
            )
        self._send(broker_id)

    def close(self) -> None:
        """Close the connections."""
        self._clients.close()


def _failed(transaction: VerifiedTransaction, error: ErrorCode) -> Pending[PartitionErrors]:
    return Pending.of(dict.fromkeys(transaction.partitions, error))


def _request(batch: list[Verification]) -> AddPartitionsToTxnRequest:
    # Imported at its first use: only a coordinator on another broker is asked so.
    from odradek.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    request = AddPartitionsToTxnRequest(transactions=[])
    for transaction, _ in batch:
        request.transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                verify_only=not transaction.adds_partitions,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(transaction.partitions).items()
                ],
            )
        )
    return request
