"""A broker with the transaction coordinator and the partitions that it writes markers into.

All of it is the product's, on a file system in memory which outlives a broker: what writes into
`__transaction_state`, what writes markers, the groups' offsets, two partitions with records.  There
are no sockets; time passes when a test says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final, cast
from uuid import UUID

from odradek.broker.group.context import GroupContext
from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.group.limits import GroupLimits
from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.group.offsets_log import OffsetsTransaction
from odradek.broker.interbroker.network_client import NetworkClient, NetworkClients
from odradek.broker.purgatory import Purgatory
from odradek.broker.replication.leader import InSyncRules, PartitionLeader
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.partitions import Partitions
from odradek.broker.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC, Topics
from odradek.broker.transaction.context import TransactionContext, TransactionSettings
from odradek.broker.transaction.coordinator import TransactionCoordinator
from odradek.broker.transaction.markers import TxnMarker
from odradek.broker.transaction.metadata import TV_2, TxnTransitMetadata
from odradek.broker.transaction.shard import TransactionShard
from odradek.broker.transaction_markers import Marker, TransactionMarkers
from odradek.controller.image.image import (
    BrokerImage,
    Endpoint,
    Image,
    PartitionImage,
    PartitionState,
    TopicImage,
)
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import RecordBatch, iterate_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.control import parse_end_marker
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.files import FileSystem
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.pending import Pending
from odradek.runtime.testing.seeded_randomness import SeededRandomness
from odradek.runtime.testing.virtual_clock import VirtualClock
from odradek.runtime.timers import TimingWheel
from odradek.storage.log_config import LogConfig
from tests.support.log_directories import Broker

FOLDER: Final = "/a"
HERE: Final = 1
LISTENER: Final = "PLAINTEXT"
T_0, T_1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS: Final = TopicPartition(OFFSETS_TOPIC, 0)
STATE: Final = TopicPartition(TRANSACTION_TOPIC, 0)
GROUP: Final = "g"
ID: Final = "transfers"
TIMEOUT_MS: Final = 1_000
SEGMENT_BYTES: Final = 300
"""So that records and markers roll segments."""


def image_of(
    leaders: Mapping[TopicPartition, int], addresses: Mapping[int, tuple[str, int]] | None = None
) -> Image:
    """An image in which each partition has one replica, its leader.

    addresses  of brokers, by id
    """
    topics: dict[str, dict[int, PartitionImage]] = {}
    for (topic, index), leader in leaders.items():
        state = PartitionState(leader, 1, (leader,), 1, controller_epoch=1)
        topics.setdefault(topic, {})[index] = PartitionImage(index, (leader,), state)
    return Image(
        brokers={
            broker_id: BrokerImage(broker_id, -1, (Endpoint(LISTENER, *address, LISTENER),))
            for broker_id, address in (addresses or {HERE: ("here", 9092)}).items()
        },
        topics={
            name: TopicImage(name, UUID(int=number), partitions)
            for number, (name, partitions) in enumerate(topics.items(), 1)
        },
    )


class NoClients:
    """Connections to other brokers, of which there are none."""

    def client(self, host: str, port: int, client_id: str) -> NetworkClient:
        """Never called."""
        raise AssertionError(f"there is no broker at {host}")


class StoredBroker:
    """A started broker; dropping it is a kill.

    life     counts the starts; it is the leader epoch of all partitions
    version  of the transactions of its producer: 0, or 2 (KIP-890)
    """

    def __init__(self, files: FileSystem, life: int, version: int = 0) -> None:
        self._version = version
        self.clock = VirtualClock()
        self.wheel = TimingWheel(self.clock.monotonic_ms())
        self.purgatory = Purgatory(self.wheel, BrokerMetrics(), Purgatory.run_notified)
        self.logs = Broker(files, [FOLDER])
        config = LogConfig(segment_bytes=SEGMENT_BYTES)
        self.logs.start(lambda _: config)
        self.partitions = Partitions()
        self.cache = MetadataCache()
        self.cache.image = image_of(dict.fromkeys((T_0, T_1, OFFSETS, STATE), HERE))
        self.producer_ids = count(1_000 * life)
        self.context = TransactionContext(
            self.purgatory,
            self.wheel,
            self.clock,
            TransactionSettings(),
            new_producer_id=lambda: next(self.producer_ids),
            transaction_version=lambda: version,
        )
        topics = Topics(self.cache)
        self.groups = GroupCoordinator(
            GroupContext(self.purgatory, self.wheel, self.clock, GroupLimits(initial_delay_ms=0)),
            topics,
            SeededRandomness(life),
            partition_count=1,
            retention_ms=1 << 40,
        )
        self.markers = TransactionMarkers(
            self.partitions, self.groups, self.purgatory, self.clock, timeout_ms=TIMEOUT_MS
        )
        self.coordinator = TransactionCoordinator(
            self.context,
            topics,
            self.write_here,
            cast(NetworkClients, NoClients()),
            broker_id=HERE,
            listener_name=LISTENER,
            partition_count=1,
        )
        for place in (T_0, T_1, OFFSETS, STATE):
            self._lead(place, life, config)
        self.wait(10)

    def write_here(self, partition: TopicPartition, marker: TxnMarker) -> Pending[ErrorCode]:
        """Append a marker to a partition."""
        return self.markers.write(*partition, Marker(*marker))

    def _lead(self, place: TopicPartition, life: int, config: LogConfig) -> None:
        log = self.logs.create(*place, config=config, topic_id=None, is_new=False)
        partition = Partition(place.topic, UUID(int=1), place.partition, log)
        log.head.epochs.assign(life, log.end_offset)
        partition.apply_state(
            PartitionState(HERE, life, (HERE,), life, controller_epoch=1),
            PartitionLeader(
                replica_id=HERE,
                leader_epoch=life,
                replicas=(HERE,),
                in_sync=(HERE,),
                end_offset=log.end_offset,
                rules=InSyncRules(30_000, lambda _: True, self.clock.monotonic_ms),
                now_ms=self.clock.monotonic_ms(),
            ),
        )
        partition.update_high_watermark()
        self.partitions.add(partition)
        if place == STATE:
            self.coordinator.lead(partition)
        elif place == OFFSETS:
            self.groups.lead(partition)

    def wait(self, wait_ms: int) -> None:
        """Advance the clock, and run what is due."""
        for _ in range(wait_ms):
            self.clock.advance(1)
            for callback in self.wheel.advance(self.clock.monotonic_ms()):
                callback()
            self.purgatory.run_notified()

    @property
    def shard(self) -> TransactionShard:
        """The one shard of the coordinator."""
        return self.coordinator.shard_of(ID)

    # A producer.

    def begin(self) -> tuple[int, int]:
        """InitProducerId; its transaction gets the partitions, and the group's offsets."""
        for _ in range(TIMEOUT_MS):
            error, *producer = self.shard.init_producer_id(
                ID,
                timeout_ms=TIMEOUT_MS,
                expected=None,
                new_producer_id=lambda: next(self.producer_ids),
            ).result()
            if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            self.wait(1)
        assert error is ErrorCode.NONE, error
        producer_id, epoch = producer
        places = dict.fromkeys((T_0, T_1, OFFSETS))
        added = self.shard.add_partitions(
            ID, producer_id, epoch, places, client_version=self._version
        )
        assert added.result() is ErrorCode.NONE
        return producer_id, epoch

    def write(self, producer: tuple[int, int], value: int) -> None:
        """A record in each partition, and an offset of the group, all of this value."""
        producer_id, epoch = producer
        for place in (T_0, T_1):
            batch = build_batch(
                [Record(None, b"%d" % value, timestamp_ms=1)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                is_transactional=True,
            )
            self.append(place, batch)
        committed = OffsetAndMetadata(value, -1, "", self.clock.now_ms())
        shard = self.groups.shards[OFFSETS.partition]
        written = shard.commit_transactional_offsets(
            GROUP,
            OffsetsTransaction(producer_id, epoch, False, None),
            member_id="",
            instance_id=None,
            generation=-1,
            commits={T_0: committed},
        )
        assert written.result() is ErrorCode.NONE

    def append(self, place: TopicPartition, batch: bytearray) -> None:
        """Append; raises BrokerError."""
        partition = self.partitions.held(*place)
        (result,) = partition.append([RecordBatch(memoryview(batch))], self.clock.now_ms())
        if isinstance(result, BrokerError):
            raise result
        partition.update_high_watermark()

    def end(self, producer: tuple[int, int], *, is_commit: bool) -> ErrorCode:
        """EndTxn."""
        if self._version == TV_2:
            return self.shard.end_transaction_v2(ID, *producer, is_commit=is_commit).result().error
        return self.shard.end_transaction(ID, *producer, is_commit=is_commit).result()

    def flush(self) -> None:
        """Everything is durable."""
        self.logs.flush(*(partition.log for partition in self.partitions.all()))

    # What is there.

    def state(self) -> TxnTransitMetadata:
        """What the coordinator knows of the transactional id."""
        return self.shard.ids[ID].current

    def is_stable(self) -> bool:
        """Whether no partition has an open transaction."""
        return all(
            self.partitions.held(*place).last_stable_offset
            == self.partitions.held(*place).log.end_offset
            for place in (T_0, T_1, OFFSETS)
        )

    def batches(self, place: TopicPartition) -> Iterator[RecordBatch]:
        """The batches of a partition, read from its files."""
        log = self.partitions.held(*place).log
        files = self.logs.files
        for name in sorted(files.list(log.directory)):
            if name.endswith(".log"):
                content = files.read(f"{log.directory}/{name}")
                yield from iterate_batches(memoryview(content))

    def outcomes(self, place: TopicPartition, producer: tuple[int, int]) -> list[bool]:
        """For each batch of a producer epoch's records: whether the marker after it commits."""
        producer_id, epoch = producer
        outcomes: list[bool] = []
        is_open = False
        for batch in self.batches(place):
            if batch.producer_id != producer_id:
                continue
            if not batch.is_control:
                is_open = is_open or batch.producer_epoch == epoch
            elif is_open:
                marker = parse_end_marker(batch)
                assert marker is not None
                outcomes.append(marker.is_commit)
                is_open = False
        assert not is_open, f"{place} has records without a marker"
        return outcomes

    def committed_offset(self) -> int | None:
        """The offset of the group; None: it has none."""
        group = self.groups.shards[OFFSETS.partition].groups.get(GROUP)
        assert group is None or not group.offsets.transactional, "offsets are pending"
        offset = None if group is None else group.offsets.committed.get(T_0)
        return None if offset is None else offset.offset

    def end_all(self) -> None:
        """Let time pass until abandoned transactions have ended."""
        for _ in range(5):
            self.wait(TIMEOUT_MS)
            for _ in self.shard.abort_timed_out():
                self.wait(1)
            self.wait(1)
