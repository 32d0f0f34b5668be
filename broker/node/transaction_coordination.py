"""Makes the transaction coordinator of a node, and what it needs of other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.interbroker.network_client import NetworkClients
from odradek.broker.node.platform import Platform
from odradek.broker.replication.partitions import Partitions
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.topics import Topics
from odradek.broker.transaction.context import TransactionContext, TransactionSettings
from odradek.broker.transaction.coordinator import TransactionCoordinator
from odradek.broker.transaction.verifier import CoordinatorVerifier
from odradek.broker.transaction_markers import Marker, TransactionMarkers
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending

if TYPE_CHECKING:
    from odradek.broker.transaction.markers import TxnMarker


class TransactionParts(NamedTuple):
    """The coordinator, and what this broker does as the leader of partitions."""

    coordinator: TransactionCoordinator
    markers: TransactionMarkers
    verifier: CoordinatorVerifier

    def close(self) -> None:
        """The node stops: coordinate nothing, and close the connections to other brokers."""
        self.coordinator.close()
        self.verifier.close()


def build_transactions(  # noqa: PLR0913 - what it coordinates, and whom it asks
    platform: Platform,
    settings: BrokerSettings,
    *,
    broker_id: int,
    topics: Topics,
    partitions: Partitions,
    groups: GroupCoordinator,
    clients: NetworkClients,
    new_producer_id: Callable[[], int],
    transaction_version: Callable[[], int],
) -> TransactionParts:
    """With the settings of the start: those of transactions are read-only.

    new_producer_id, transaction_version  called once transactions are served
    """
    listener_name = settings.inter_broker_listener_name
    markers = TransactionMarkers(
        partitions,
        groups,
        platform.purgatory,
        platform.clock,
        timeout_ms=settings.request_timeout_ms,
    )

    def write_here(partition: TopicPartition, marker: TxnMarker) -> Pending[ErrorCode]:
        return markers.write(*partition, Marker(*marker))

    context = TransactionContext(
        platform.purgatory,
        platform.wheel,
        platform.clock,
        TransactionSettings(
            timeout_max_ms=settings.transaction_max_timeout_ms,
            expiration_ms=settings.transactional_id_expiration_ms,
            append_ms=settings.request_timeout_ms,
        ),
        new_producer_id=new_producer_id,
        transaction_version=transaction_version,
    )
    coordinator = TransactionCoordinator(
        context,
        topics,
        write_here,
        clients,
        broker_id=broker_id,
        listener_name=listener_name,
        partition_count=settings.transaction_state_log_num_partitions,
    )
    verifier = CoordinatorVerifier(
        coordinator, topics, clients, context, broker_id=broker_id, listener_name=listener_name
    )
    return TransactionParts(coordinator, markers, verifier)
