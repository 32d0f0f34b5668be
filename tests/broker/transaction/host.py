"""A node with one shard, on a partition of `__transaction_state` in memory; scripted leaders."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from odradek.broker.transaction.context import TransactionContext, TransactionSettings
from odradek.broker.transaction.marker_channels import MarkerChannels, MarkerResults
from odradek.broker.transaction.markers import TxnMarker
from odradek.broker.transaction.metadata import (
    InitProducerIdResult,
    ProducerIdAndEpoch,
    TxnTransitMetadata,
)
from odradek.broker.transaction.shard import TransactionShard
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.pending import Pending
from tests.support.coordinator_host import CoordinatorHost

NONE = ErrorCode.NONE
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
HERE = 1


class Leaders:
    """Brokers that write markers; what they respond is scripted."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {A0: HERE, A1: HERE, B0: HERE}
        self.requests: list[tuple[int, list[tuple[TxnMarker, list[TopicPartition]]]]] = []
        self.accepted: list[tuple[TopicPartition, bool, int]] = []
        """(partition, whether it commits, producer epoch) of every marker that ended something."""
        self.open: dict[TopicPartition, None] = {}
        """Partitions in which a producer has written since the last marker."""
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.waiting: list[Callable[[], None]] = []
        self.is_slow = False
        self.is_lost = False
        """Requests get no response."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        return self.leaders[partition]

    def write(
        self, broker_id: int, markers: list[tuple[TxnMarker, list[TopicPartition]]]
    ) -> Pending[MarkerResults]:
        self.requests.append((broker_id, markers))
        if self.is_lost:
            return Pending.failed(BrokerError(ErrorCode.NETWORK_EXCEPTION))
        self.accepted += [
            (partition, marker.is_commit, marker.producer_epoch)
            for marker, partitions in markers
            for partition in partitions
            if partition not in self.errors and partition in self.open
        ]
        for _, partitions in markers:
            for partition in partitions:
                if partition not in self.errors:
                    self.open.pop(partition, None)
        written: Pending[MarkerResults] = Pending()

        def respond() -> None:
            written.resolve(
                {
                    (marker.producer_id, partition): self.errors.get(partition, NONE)
                    for marker, partitions in markers
                    for partition in partitions
                }
            )

        if self.is_slow:
            self.waiting.append(respond)
        else:
            respond()
        return written

    def respond(self) -> None:
        """Respond to the requests that wait, and to later ones at once."""
        self.is_slow = False
        waiting, self.waiting = self.waiting, []
        for respond in waiting:
            respond()

    def written(self) -> list[tuple[TopicPartition, bool, int]]:
        """(partition, whether it commits, producer epoch) of every marker that was sent."""
        return [
            (partition, marker.is_commit, marker.producer_epoch)
            for _, markers in self.requests
            for marker, partitions in markers
            for partition in partitions
        ]


class Host(CoordinatorHost):
    """A node that leads one partition of `__transaction_state`."""

    def __init__(self, in_sync: tuple[int, ...] = (1,)) -> None:
        super().__init__("__transaction_state", in_sync)
        self.context = TransactionContext(
            self.purgatory,
            self.wheel,
            self.clock,
            TransactionSettings(expiration_ms=100_000),
            new_producer_id=lambda: next(self.producer_ids),
            transaction_version=lambda: self.transaction_version,
        )
        self.transaction_version = 0
        self.leaders = Leaders()
        self.channels = MarkerChannels(self.leaders, self.context)
        self.producer_ids = count(1_000)
        self.shard = self.lead()

    def lead(self) -> TransactionShard:
        """Lead in a new leader epoch; the shard loads the records."""
        self.lead_again()
        return TransactionShard(self.partition, self.context, self.channels)

    def reload(self) -> TransactionShard:
        """Close the shard and load another one, as a broker that takes over."""
        self.shard.close()
        self.channels = MarkerChannels(self.leaders, self.context)
        self.shard = self.lead()
        self.wait(5)
        return self.shard

    def ask(
        self, name: str = "t", expected: tuple[int, int] | None = None, timeout_ms: int = 60_000
    ) -> Pending[InitProducerIdResult]:
        """An InitProducerId."""
        return self.shard.init_producer_id(
            name,
            timeout_ms=timeout_ms,
            expected=None if expected is None else ProducerIdAndEpoch(*expected),
            new_producer_id=lambda: next(self.producer_ids),
        )

    def init(self, name: str = "t", expected: tuple[int, int] | None = None) -> tuple[int, int]:
        """An InitProducerId that succeeds; returns producer id and epoch."""
        error, producer_id, epoch = self.ask(name, expected).result()
        assert error is NONE, error
        return producer_id, epoch

    def add(self, producer: tuple[int, int], *partitions: TopicPartition) -> ErrorCode:
        """An AddPartitionsToTxn."""
        return self.shard.add_partitions("t", *producer, dict.fromkeys(partitions)).result()

    def end(self, producer: tuple[int, int], *, is_commit: bool = True) -> ErrorCode:
        """An EndTxn."""
        return self.shard.end_transaction("t", *producer, is_commit=is_commit).result()

    def state(self, name: str = "t") -> TxnTransitMetadata:
        """What is known of an id."""
        return self.shard.ids[name].current
