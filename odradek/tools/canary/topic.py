"""The topic of a canary: one partition a broker, of which the broker is the preferred leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.errors import check, refused
from odradek.tools.leader_election import elect_preferred
from odradek.tools.topics.requests import add_partitions, create_topics, new_topic

REPLICAS_MAX: Final = 3
CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "600000",
    "segment.bytes": "1048576",
    "min.insync.replicas": "1",
    # What is fetched can be compared with what was sent.
    "message.timestamp.type": "CreateTime",
    "compression.type": "producer",
}
BROKERS_MAX: Final = 1_000


class CanaryPartition(NamedTuple):
    """A partition of the topic as the metadata have it."""

    leader: int
    replicas: Sequence[int]
    in_sync: Sequence[int]


class Repair(NamedTuple):
    """What the topic lacks.

    new      replicas of the partitions to add, the preferred leader first
    elected  numbers of partitions whose preferred leader is in sync, and does not lead
    """

    new: list[list[int]]
    elected: list[int]


def plan_repair(partitions: Mapping[int, CanaryPartition], brokers: Sequence[int]) -> Repair:
    """What has to be done so that each broker leads a partition.

    partitions  by number; empty: there is no topic
    brokers     those that are alive
    """
    served = {partition.replicas[0] for partition in partitions.values() if partition.replicas}
    alive = sorted(brokers)[:BROKERS_MAX]
    count = min(REPLICAS_MAX, len(alive))
    new = []
    for position, broker in enumerate(alive):
        if broker not in served:
            new.append([alive[(position + step) % len(alive)] for step in range(count)])
    elected = [
        number
        for number, partition in sorted(partitions.items())
        if partition.replicas
        and partition.leader != partition.replicas[0]
        and partition.replicas[0] in partition.in_sync
        and partition.replicas[0] in alive
    ]
    return Repair(new, elected)


class CanaryCluster(NamedTuple):
    """Where to probe.

    addresses   of the brokers that are alive
    partitions  by the broker that should lead
    """

    addresses: Mapping[int, tuple[str, int]]
    partitions: Mapping[int, int]
    topic_id: UUID


class CanaryTopic:
    """Creates the topic, and repairs it."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    def bring_about(self) -> CanaryCluster:
        """Repair what is to be repaired, and say where to probe.

        raises  ToolError
        """
        metadata = self._client.metadata()
        topic = next((row for row in metadata.topics if row.name == self._name), None)
        partitions = {
            row.partition_index: CanaryPartition(row.leader_id, row.replica_nodes, row.isr_nodes)
            for row in (topic.partitions if topic is not None else ())
        }
        addresses = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        repair = plan_repair(partitions, list(addresses))
        if repair.new:
            self._add(len(partitions), repair.new)
        if repair.elected:
            elect_preferred(
                self._client, [TopicPartition(self._name, number) for number in repair.elected]
            )
        return CanaryCluster(
            addresses,
            {
                partition.replicas[0]: number
                for number, partition in partitions.items()
                if partition.replicas
            },
            UUID(int=0) if topic is None else topic.topic_id,
        )

    def _add(self, count: int, new: list[list[int]]) -> None:
        if count > 0:
            check(*add_partitions(self._client, {self._name: (count + len(new), new)}))
            return
        topic = new_topic(self._name, assignment=new, configs=CONFIGS)
        for row in create_topics(self._client, [topic]):
            if row.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise refused(row.error_code, row.error_message)
