"""A node with one shard, on a partition of `__transaction_state` in memory; scripted leaders."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from uuid import UUID

from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.leader import InSyncRules, PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.transaction.context import TransactionContext, TransactionSettings
from odradek.broker.transaction.marker_channels import MarkerChannels, Results
from odradek.broker.transaction.markers import TxnMarker
from odradek.broker.transaction.metadata import (
    InitProducerIdResult,
    ProducerIdAndEpoch,
    TxnTransitMetadata,
)
from odradek.broker.transaction.shard import TransactionShard
from odradek.controller.image import PartitionState
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.testing.memory_files import MemoryFileSystem
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from tests.support.log_directories import Broker

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
    ) -> Pending[Results]:
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
        written: Pending[Results] = Pending()

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


class Host:
    """A node that leads one partition of `__transaction_state`."""

    def __init__(self, in_sync: tuple[int, ...] = (1,)) -> None:
        self.clock = VirtualClock()
        self.wheel = TimingWheel(self.clock.monotonic_ms())
        self.purgatory = Purgatory(self.wheel, BrokerMetrics())
        self.context = TransactionContext(
            self.purgatory, self.wheel, self.clock, TransactionSettings(expiration_ms=100_000)
        )
        self.leaders = Leaders()
        self.channels = MarkerChannels(self.leaders, self.context)
        self.files = MemoryFileSystem(folders=["/a"])
        log = Broker(self.files, ["/a"]).start().create("__transaction_state")
        self.partition = Partition("__transaction_state", UUID(int=1), 0, log)
        self.partition.leader_epoch = 0
        self.in_sync = in_sync
        self.producer_ids = count(1_000)
        self.shard = self.lead()

    def lead(self) -> TransactionShard:
        """Lead in a new leader epoch; the shard loads the records."""
        log, leader_epoch = self.partition.log, self.partition.leader_epoch + 1
        log.assign_epoch(leader_epoch, log.end_offset)
        self.partition.apply_state(
            PartitionState(1, leader_epoch, self.in_sync, leader_epoch, controller_epoch=1),
            PartitionLeader(
                replica_id=1,
                leader_epoch=leader_epoch,
                replicas=self.in_sync,
                in_sync=self.in_sync,
                end_offset=log.end_offset,
                rules=InSyncRules(30_000, lambda _: True, self.clock.monotonic_ms),
                now_ms=self.clock.monotonic_ms(),
            ),
        )
        return TransactionShard(self.partition, self.context, self.channels)

    def reload(self) -> TransactionShard:
        """Close the shard and load another one, as a broker that takes over."""
        self.shard.close()
        self.channels = MarkerChannels(self.leaders, self.context)
        self.shard = self.lead()
        self.wait(5)
        return self.shard

    def wait(self, wait_ms: int) -> None:
        """Advance the clock, and run what is due."""
        for _ in range(wait_ms):
            self.clock.advance(1)
            for callback in self.wheel.advance(self.clock.monotonic_ms()):
                callback()
            self.purgatory.run_notified()

    def replicate(self) -> None:
        """The follower fetches everything."""
        leader, end_offset = self.partition.leader, self.partition.log.end_offset
        assert leader is not None
        leader.followers[2].on_fetch(
            end_offset, 0, leader_end_offset=end_offset, broker_epoch=-1, now_ms=0
        )
        self.partition.update_high_watermark()
        self.purgatory.notify(self.partition)
        self.purgatory.run_notified()

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
