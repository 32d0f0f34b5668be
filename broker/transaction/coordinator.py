"""The transaction coordinator of this broker: which shard a transactional id belongs to.

The hash of an id names a partition of `__transaction_state`; the leader of that partition
coordinates its transactions.  Source: Kafka's TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.topics import TRANSACTION_TOPIC, Topics, partition_for
from odradek.broker.transaction.context import TransactionContext
from odradek.protocol.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from odradek.broker.interbroker.network_client import NetworkClients
    from odradek.broker.replication.partition import Partition
    from odradek.broker.transaction.marker_channels import MarkerChannels
    from odradek.broker.transaction.marker_writer import BrokerMarkerWriter, WriteHere
    from odradek.broker.transaction.shard import TransactionShard


class TransactionCoordinator:
    """The shards of all partitions of `__transaction_state` that this broker leads.

    write_here       writes markers into the partitions that this broker leads
    listener_name    over which brokers reach each other
    partition_count  of the topic before it exists
    """

    def __init__(
        self,
        context: TransactionContext,
        topics: Topics,
        write_here: WriteHere,
        clients: NetworkClients,
        *,
        broker_id: int,
        listener_name: str,
        partition_count: int,
    ) -> None:
        self.shards: dict[int, TransactionShard] = {}
        self.settings = context.settings
        self._context = context
        self._topics = topics
        self._write_here = write_here
        self._clients = clients
        self._broker_id = broker_id
        self._listener_name = listener_name
        self._writer: BrokerMarkerWriter | None = None
        self._markers: MarkerChannels | None = None
        self._default_count = partition_count
        self._is_aborting = False
        self._is_expiring = False

    def lead(self, partition: Partition) -> None:
        """Load a partition that this broker leads in a new leader epoch, and coordinate.

        A partition that it has led in the epoch before is coordinated already.
        """
        from odradek.broker.transaction.shard import TransactionShard

        shard = self.shards.get(partition.index)
        if shard is not None and shard.continues_with(partition):
            return
        self.resign(partition.index)
        markers = self._markers
        if markers is None:
            markers = self._markers = self._make_markers()
        self.shards[partition.index] = TransactionShard(partition, self._context, markers)

    def _make_markers(self) -> MarkerChannels:
        from odradek.broker.transaction.broker_clients import BrokerClients
        from odradek.broker.transaction.marker_channels import MarkerChannels
        from odradek.broker.transaction.marker_writer import BrokerMarkerWriter

        self._writer = BrokerMarkerWriter(
            self._write_here,
            BrokerClients(
                self._clients,
                self._topics,
                listener_name=self._listener_name,
                client_id=f"broker-{self._broker_id}-txn-marker-sender",
            ),
            self._topics,
            self._context,
            broker_id=self._broker_id,
        )
        return MarkerChannels(self._writer, self._context)

    def close(self) -> None:
        """The node stops: coordinate nothing, and close the connections to other brokers."""
        for index in list(self.shards):
            self.resign(index)
        if self._writer is not None:
            self._writer.close()

    def resign(self, index: int) -> None:
        """Close the shard of a partition that another broker leads, or that was deleted."""
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.close()

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that an id belongs to."""
        index = self._topics.coordinator_partition(TRANSACTION_TOPIC, transactional_id)
        return partition_for(transactional_id, self._default_count) if index is None else index

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """The shard of an id, ready for requests.

        raises  BrokerError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE
        """
        shard = self.shards.get(self.partition_for(transactional_id))
        if shard is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        shard.check_ready()
        return shard

    def abort_timed_out(self) -> None:
        """Abort the transactions that are open for too long, between requests."""
        if self.shards and not self._is_aborting:
            self._is_aborting = True
            self._context.run_between_requests(self._abort_steps())

    def _abort_steps(self) -> Iterator[None]:
        try:
            for shard in list(self.shards.values()):
                yield from shard.abort_timed_out()
        finally:
            self._is_aborting = False

    def remove_expired(self) -> None:
        """Remove the ids that were not used for a long time, between requests."""
        if self.shards and not self._is_expiring:
            self._is_expiring = True
            self._context.run_between_requests(self._expire_steps())

    def _expire_steps(self) -> Iterator[None]:
        try:
            for shard in list(self.shards.values()):
                yield from shard.remove_expired()
        finally:
            self._is_expiring = False
