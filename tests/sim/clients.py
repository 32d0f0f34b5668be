"""The clients of a simulated cluster: idempotent producers and a consumer, over its network."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Final

from odradek.broker.interbroker.network_client import NetworkClient, NetworkClients
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import iterate_batches
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from odradek.protocol.topic_partition import TopicPartition
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.timers import TimingWheel
from odradek.runtime.wheel_driver import WheelDriver
from tests.sim.loop import ProcessClock, SimulatedLoop
from tests.sim.network import Network, connector
from tests.sim.oracle import Oracle
from tests.sim.process import PORT
from tests.sim.world import World

TOPIC: Final = "orders"
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
INIT_VERSION: Final = 4
LIST_VERSION: Final = 7
REQUEST_TIMEOUT_MS: Final = 2_500
RETRY_US: Final = 150_000
KEYS: Final = 3
OWN_KEY_ONE_IN: Final = 13
TOMBSTONE_ONE_IN: Final = 7
REFUSED_BEFORE_APPEND: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
MAY_BE_REPEATED: Final = (
    *REFUSED_BEFORE_APPEND,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    # Of a leader that does not know yet that it leads no more, and lacks what was sent since.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)


def number_of(value: bytes) -> int:
    """The number at the end of a value."""
    return int(value.rpartition(b"-")[2])


def key_of(value: bytes) -> bytes:
    """The key of a value: most have one of a few keys, so that whole segments are compacted."""
    number = number_of(value)
    return value if number % OWN_KEY_ONE_IN == 0 else b"key %d" % (number % KEYS)


@cache
def produced(producer_id: int, sequence: int, value: bytes, *, is_keyed: bool = False) -> bytes:
    """A batch with one record; with a key, some are tombstones, whose header says the value."""
    key = key_of(value) if is_keyed else None
    is_tombstone = key not in (None, value) and number_of(value) % TOMBSTONE_ONE_IN == 0
    record = Record(
        key,
        None if is_tombstone else value,
        headers=(("value", value),) if is_tombstone else (),
        timestamp_ms=1_700_000_000_000,
    )
    return bytes(
        build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    )


@cache
def scribbled(number: int, *, is_keyed: bool = False) -> bytes:
    """A batch with one record, of no producer."""
    value = b"scribbled-%d" % number
    key = key_of(value) if is_keyed else None
    return bytes(build_batch([Record(key, value, timestamp_ms=1)]))


class ClientHost:
    """A machine with clients; it does not fail."""

    def __init__(
        self, world: World, network: Network, oracle: Oracle, broker_ids: list[int]
    ) -> None:
        self.world = world
        self.oracle = oracle
        self.broker_ids = broker_ids
        self.host = network.host("clients")
        self.loop = self.host.loop = SimulatedLoop(
            world, on_turn=lambda: False, connect=connector(network, self.host)
        )
        clock: Clock = ProcessClock(world, 0)
        loop: Any = self.loop
        self.wheel = WheelDriver(loop, clock, TimingWheel(clock.monotonic_ms()))
        self._clients: dict[tuple[int, int], NetworkClient] = {}

    def send(self, broker_id: int, message: Any, version: int, *, channel: int = 0) -> Pending[Any]:
        """Send a request to a broker, over the connection of its channel: a request that waits
        delays those behind it."""
        client = self._clients.get((broker_id, channel))
        if client is None:
            loop: Any = self.loop
            clients = NetworkClients(loop, self.wheel, REQUEST_TIMEOUT_MS, REQUEST_TIMEOUT_MS)
            client = clients.client(f"broker-{broker_id}", PORT, "client")
            self._clients[broker_id, channel] = client
        return client.send(message, version)

    def any_broker(self) -> int:
        return self.world.random.choice(self.broker_ids)

    def leader_of(self, key: TopicPartition) -> int:
        """The leader by the newest state, or any broker: metadata may be old."""
        state = self.oracle.state_of(key)
        if state is None or state.leader < 0 or self.world.random.randrange(8) == 0:
            return self.any_broker()
        return state.leader

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        self.loop.post(delay_us, call)


class Producer:
    """Sends values in order with acks=all, each until it is acknowledged."""

    def __init__(
        self, clients: ClientHost, name: str, keys: list[TopicPartition], pause_us: int
    ) -> None:
        self._clients = clients
        self.name = name
        self._keys = keys
        self._pause_us = pause_us
        self._producer_id = -1
        self.is_stopped = False
        self.waiting: dict[TopicPartition, bytes] = {}
        """What has no response yet, or not the last one."""
        self._sequences = dict.fromkeys(keys, 0)
        self._values = 0
        clients.after(0, self._open)

    def _open(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        pending = self._clients.send(self._clients.any_broker(), request, INIT_VERSION)

        def done(pending: Pending[Any]) -> None:
            try:
                response = pending.result()
            except BrokerError:
                self._clients.after(RETRY_US, self._open)
                return
            if response.error_code:
                self._clients.after(RETRY_US, self._open)
                return
            self._producer_id = response.producer_id
            self._clients.oracle.on_producer_id(response.producer_id, self.name)
            for key in self._keys:
                self._next(key)

        pending.on_done(done)

    def _next(self, key: TopicPartition) -> None:
        if self.is_stopped:
            return
        self._values += 1
        self.waiting[key] = b"%s-%d-%d" % (self.name.encode(), key.partition, self._values)
        self._send(key)

    def _send(self, key: TopicPartition) -> None:
        value = self.waiting[key]
        sequence = self._sequences[key]
        is_keyed = self._clients.oracle.compacts
        batch = memoryview(produced(self._producer_id, sequence, value, is_keyed=is_keyed))
        data = PartitionProduceData(index=key.partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS - 1_000,
            topic_data=[TopicProduceData(name=key.topic, partition_data=[data])],
        )
        self._clients.oracle.on_sent(key, value)
        pending = self._clients.send(self._clients.leader_of(key), request, PRODUCE_VERSION)
        pending.on_done(lambda done: self._on_response(key, done))

    def _on_response(self, key: TopicPartition, done: Pending[Any]) -> None:
        clients = self._clients
        try:
            (topic,) = done.result().responses
            (response,) = topic.partition_responses
            code, offset = ErrorCode(response.error_code), response.base_offset
        except BrokerError:
            code, offset = ErrorCode.NETWORK_EXCEPTION, -1
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            clients.oracle.on_acknowledged(key, self.waiting.pop(key), offset)
            self._sequences[key] += 1
            pause_us = clients.world.random.randrange(self._pause_us)
            clients.after(pause_us, lambda: self._next(key))
        elif code in MAY_BE_REPEATED:
            clients.after(RETRY_US, lambda: self._send(key))
        else:
            clients.world.fail(f"a record of {self.name} for {key} was refused: {code!r}")


class Scribbler:
    """Sends records with acks=1 to any broker: what only one replica has, and may be dropped."""

    def __init__(
        self, clients: ClientHost, keys: Callable[[], list[TopicPartition]], pause_us: int
    ) -> None:
        """keys  the partitions that there are now"""
        self._clients = clients
        self._keys = keys
        self._pause_us = pause_us
        self.is_stopped = False
        self._count = 0
        clients.after(pause_us, self._send)

    def _send(self) -> None:
        if self.is_stopped:
            return
        clients, random = self._clients, self._clients.world.random
        key = random.choice(self._keys())
        self._count += 1
        batch = scribbled(self._count, is_keyed=clients.oracle.compacts)
        data = PartitionProduceData(index=key.partition, records=memoryview(batch))
        request = ProduceRequest(
            acks=1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=key.topic, partition_data=[data])],
        )
        broker_id = clients.any_broker() if random.randrange(2) else clients.leader_of(key)
        clients.send(broker_id, request, PRODUCE_VERSION)
        clients.after(random.randrange(self._pause_us), self._send)


class Consumer:
    """Reads each partition from its start and compares what it gets with what is committed."""

    ISOLATION: ClassVar = 0
    BYTES_MAX: ClassVar = 2_000
    WAIT_MAX_MS: ClassVar = 500

    def __init__(self, clients: ClientHost, keys: list[TopicPartition], pause_us: int) -> None:
        self._clients = clients
        self._pause_us = pause_us
        self.offsets = dict.fromkeys(keys, 0)
        for key in keys:
            clients.after(pause_us, lambda key=key: self._fetch(key))  # type: ignore[misc]

    def _fetch(self, key: TopicPartition) -> None:
        partition = FetchPartition(
            partition=key.partition,
            fetch_offset=self.offsets[key],
            partition_max_bytes=self.BYTES_MAX,
        )
        request = FetchRequest(
            max_wait_ms=self.WAIT_MAX_MS,
            min_bytes=1,
            max_bytes=self.BYTES_MAX,
            isolation_level=self.ISOLATION,
            topics=[FetchTopic(topic=key.topic, partitions=[partition])],
        )
        pending = self._clients.send(self._clients.leader_of(key), request, FETCH_VERSION)
        pending.on_done(lambda done: self._on_response(key, done))

    def _on_response(self, key: TopicPartition, done: Pending[Any]) -> None:
        try:
            ((data,),) = [topic.partitions for topic in done.result().responses]
        except (BrokerError, ValueError):
            data = None
        if data is not None:
            self.on_data(key, data)
        self._clients.after(self._pause_us, lambda: self._fetch(key))

    def on_data(self, key: TopicPartition, data: Any) -> None:
        """What a response has of a partition."""
        oracle = self._clients.oracle
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            oracle.on_out_of_range(key, self.offsets[key])
        elif not data.error_code and data.records is not None:
            for batch in iterate_batches(memoryview(bytes(data.records)), allow_partial=True):
                if batch.last_offset >= self.offsets[key]:
                    oracle.on_consumed(key, batch)
                    self.offsets[key] = batch.next_offset


class LastReader(Consumer):
    """Reads everything once more, in the end."""

    BYTES_MAX: ClassVar = 1 << 20
    WAIT_MAX_MS: ClassVar = 0
    """A connection is shared: who waits at the end of a partition delays those of the others."""
    PAUSE_US: ClassVar = 1_000

    def __init__(self, clients: ClientHost, keys: list[TopicPartition]) -> None:
        super().__init__(clients, keys, self.PAUSE_US)

    def missing(self) -> str | None:
        """What it has not read yet of what is committed."""
        for key, offset in self.offsets.items():
            end = len(self._clients.oracle.of(key).batches)
            if offset < end:
                return f"{key}: the last reader is at {offset} of {end}"
        return None


class EndReader:
    """Asks for the end of a partition, in the newest leader epoch: it never falls (KIP-207).

    Half of the requests are sent to any broker, which may be a leader that was deposed.
    """

    def __init__(self, clients: ClientHost, keys: list[TopicPartition], pause_us: int) -> None:
        self._clients = clients
        self._pause_us = pause_us
        self._ends = dict.fromkeys(keys, 0)
        for key in keys:
            clients.after(pause_us, lambda key=key: self._ask(key))  # type: ignore[misc]

    def _ask(self, key: TopicPartition) -> None:
        clients = self._clients
        state = clients.oracle.state_of(key)
        if state is None:
            clients.after(self._pause_us, lambda: self._ask(key))
            return
        partition = ListOffsetsPartition(
            partition_index=key.partition,
            current_leader_epoch=state.leader_epoch,
            timestamp_ms=LATEST_TIMESTAMP,
        )
        topic = ListOffsetsTopic(name=key.topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        is_any = clients.world.random.randrange(2)
        broker_id = clients.any_broker() if is_any else clients.leader_of(key)
        end = self._ends[key]
        pending = clients.send(broker_id, request, LIST_VERSION)
        pending.on_done(lambda done: self._on_response(key, end, done))

    def _on_response(self, key: TopicPartition, end: int, done: Pending[Any]) -> None:
        """end  the greatest end that was known when the request was sent"""
        clients = self._clients
        clients.after(self._pause_us, lambda: self._ask(key))
        try:
            (topic,) = done.result().topics
            (partition,) = topic.partitions
        except BrokerError:
            return
        if partition.error_code:
            return
        if partition.offset < end:
            clients.world.fail(f"{key}: its end falls from {end} to {partition.offset}")
        clients.oracle.on_end(key, partition.offset)
        clients.world.counts["end"] += 1
        self._ends[key] = max(self._ends[key], partition.offset)
