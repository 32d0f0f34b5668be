"""A leader under test, and a broker that is nothing but a registration and what a test fetches.

The same script runs against our broker and against a real Apache Kafka.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kazoo.client import KazooClient

from odradek.broker.node.node import Node
from odradek.controller.coordination.session import CoordinationSession
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.apache import apache_kafka
from tests.support.node_thread import RunningNode, node_in_thread
from tests.support.pauses import pause
from tests.support.ports import free_port
from tests.support.record_batches import plain_batch
from tests.support.wire import Wire
from tests.support.zookeeper import zookeeper

FOLLOWER: Final = 1
PATIENCE_S: Final = 60.0
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15


def registration(port: int, rack: str) -> bytes:
    """What a broker writes into its znode."""
    value = {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
        "rack": rack,
        "jmx_port": -1,
        "port": port,
        "host": "127.0.0.1",
        "version": 5,
        "timestamp": "1700000000000",
    }
    return json.dumps(value).encode()


@dataclass(frozen=True, slots=True)
class LeadingBroker:
    """Broker 0, the controller, in a cluster with a registration of broker 1 (in rack `far`)."""

    address: str
    bury: Callable[[], None]
    """Ends the registration of broker 1."""
    revive: Callable[[], None]
    """Begins it again."""


@contextmanager
def our_leader(folder: Path, overrides: Mapping[str, str]) -> Iterator[LeadingBroker]:
    """Our broker in a thread; broker 1 has a session on its embedded tree."""
    with node_in_thread(folder, overrides) as running, registered(running) as leading:
        yield leading


@contextmanager
def registered(running: RunningNode) -> Iterator[LeadingBroker]:
    """Broker 1, registered with a node that runs."""
    port = free_port()
    sessions: list[CoordinationSession] = []

    def register(node: Node) -> None:
        session = node._coordination.connect(lambda event: None)
        sessions.append(session)
        session.create("/brokers/ids/1", registration(port, "far"), ephemeral=True)

    def end(node: Node) -> None:
        sessions.pop().close()

    running.call(register)
    yield LeadingBroker(running.address, lambda: running.call(end), lambda: running.call(register))


@contextmanager
def apache_leader(folder: Path, overrides: Mapping[str, str]) -> Iterator[LeadingBroker]:
    """Apache Kafka 3.9.2; broker 1 is a znode."""
    port = free_port()
    with (
        zookeeper(folder / "zookeeper") as coordinator,
        apache_kafka(
            folder, zookeeper_address=f"{coordinator}/kafka", overrides=overrides
        ) as broker,
    ):
        client = KazooClient(f"{coordinator}/kafka")
        client.start()

        def register() -> None:
            client.create("/brokers/ids/1", registration(port, "far"), ephemeral=True)

        try:
            register()
            yield LeadingBroker(broker.address, lambda: client.delete("/brokers/ids/1"), register)
        finally:
            client.stop()
            client.close()


class Replicated:
    """A topic of one partition on brokers 0 and 1, and the clients of a test."""

    def __init__(
        self, leading: LeadingBroker, name: str, replicas: tuple[int, ...] = (0, 1), **configs: str
    ) -> None:
        """replicas  the first one leads"""
        self.leading = leading
        self.name = name
        self.topic_id = UUID(int=0)
        self._wires: list[Wire] = []
        self.admin = self.wire()
        self.until(lambda: FOLLOWER in self.live_brokers(), "broker 1 is registered")
        self._create(replicas, configs)
        self.until(lambda: self.in_sync() == sorted(replicas), "the partition has its leader")
        self.leader_epoch = self.described().leader_epoch
        self.follower = self.wire()

    def wire(self) -> Wire:
        """Another connection."""
        wire = Wire(self.leading.address)
        self._wires.append(wire)
        return wire

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until the condition is true; it asks the broker."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, what
            pause()

    def _create(self, replicas: tuple[int, ...], configs: Mapping[str, str]) -> None:
        topic = CreatableTopic(
            name=self.name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[*replicas])],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        (made,) = self.admin.call(request, 7).topics
        if made.error_code == ErrorCode.NOT_CONTROLLER:
            metadata = self._metadata()
            (controller,) = [
                broker for broker in metadata.brokers if broker.node_id == metadata.controller_id
            ]
            with Wire(f"{controller.host}:{controller.port}") as wire:
                (made,) = wire.call(request, 7).topics
        assert made.error_code == 0, made
        self.topic_id = made.topic_id

    def _metadata(self) -> Any:
        topics = [MetadataRequestTopic(name=self.name)]
        return self.admin.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)

    def node(self, broker_id: int) -> tuple[int, str, int, str | None]:
        """(id, host, port, rack) of a broker as Metadata has it."""
        (endpoint,) = [broker for broker in self._metadata().brokers if broker.node_id == broker_id]
        return endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack

    def live_brokers(self) -> list[int]:
        """The registered brokers."""
        return sorted(broker.node_id for broker in self._metadata().brokers)

    def described(self) -> Any:
        """The partition as Metadata has it."""
        return self._metadata().topics[0].partitions[0]

    def in_sync(self) -> list[int]:
        """The in-sync replicas; empty before there is a leader."""
        topic = self._metadata().topics[0]
        return sorted(topic.partitions[0].isr_nodes) if topic.partitions else []

    def produce(self, wire: Wire, *, acks: int = -1, timeout_ms: int = 30_000) -> None:
        """Send one record without waiting for the response."""
        wire.send(self.produce_request(acks=acks, timeout_ms=timeout_ms), 9)

    def produce_request(self, *, acks: int = -1, timeout_ms: int = 30_000) -> ProduceRequest:
        """One record."""
        data = PartitionProduceData(index=0, records=memoryview(plain_batch(1)))
        return ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name=self.name, partition_data=[data])],
        )

    def produced(self, wire: Wire) -> tuple[int, int]:
        """The next response to `produce`: (error code, base offset)."""
        (partition,) = wire.receive(0, 9).responses[0].partition_responses
        return partition.error_code, partition.base_offset

    def fetch_request(
        self,
        offset: int,
        *,
        replica_id: int = FOLLOWER,
        epoch: int | None = None,
        last_epoch: int = -1,
        wait_ms: int = 0,
        log_start: int = 0,
        version: int = 17,
        broker_epoch: int = -1,
        rack: str = "",
    ) -> FetchRequest:
        """A full fetch without a session; `epoch` is the leader's unless it is given."""
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.leader_epoch if epoch is None else epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=log_start,
            partition_max_bytes=1 << 20,
        )
        uses_state = version >= REPLICA_STATE_FROM and replica_id != -1
        return FetchRequest(
            replica_id=-1 if uses_state else replica_id,
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)
            if uses_state
            else None,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[
                FetchTopic(
                    topic="" if version >= TOPIC_IDS_FROM else self.name,
                    topic_id=self.topic_id,
                    partitions=[partition],
                )
            ],
            rack_id=rack,
        )

    def fetch(self, offset: int, *, version: int = 17, **fields: Any) -> PartitionData:
        """Fetch as the follower, or as `replica_id` says; the response."""
        request = self.fetch_request(offset, version=version, **fields)
        return only_partition(self.follower.call(request, version))

    def consume(self, offset: int, **fields: Any) -> PartitionData:
        """Fetch as a consumer."""
        return self.fetch(offset, replica_id=-1, **fields)


def only_partition(response: Any) -> PartitionData:
    """The partition of a fetch response that has one."""
    assert response.error_code == 0
    ((partition,),) = [topic.partitions for topic in response.responses]
    assert isinstance(partition, PartitionData)
    return partition


def size(partition: PartitionData) -> int:
    """How many bytes of records a response has."""
    return len(partition.records or b"")
