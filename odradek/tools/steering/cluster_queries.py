"""Reads a cluster for a proposal: Metadata, ListPartitionReassignments, and DescribeLogDirs of each
broker twice, of whose sizes the rates are made."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.errors import refused, timed_out
from odradek.tools.reassign_partitions.cluster import OngoingReassignment, list_reassignments
from odradek.tools.steering.cluster_model import ClusterModel, ModelBroker, ModelPartition


class PartitionStatus(NamedTuple):
    """A partition as Metadata has it."""

    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]


class BrokerDisks(NamedTuple):
    """What a broker says of its log directories."""

    sizes: dict[TopicPartition, int]
    """The size of each of its replicas."""
    disk_bytes: int
    """What the logs use, and what is free for them; -1: unknown, also while a directory is
    offline."""


class ClusterState(NamedTuple):
    """A cluster before something is changed."""

    model: ClusterModel
    """With the targets of reassignments that are under way."""
    metadata: MetadataResponse
    partitions: dict[TopicPartition, PartitionStatus]
    ongoing: dict[TopicPartition, OngoingReassignment]
    missing: tuple[int, ...]
    """Brokers that are not registered and have replicas."""


def partition_statuses(metadata: MetadataResponse) -> dict[TopicPartition, PartitionStatus]:
    """The partitions of all topics of a response, sorted."""
    return dict(
        sorted(
            (
                TopicPartition(topic.name, row.partition_index),
                PartitionStatus(tuple(row.replica_nodes), row.leader_id, tuple(row.isr_nodes)),
            )
            for topic in metadata.topics
            if topic.name is not None
            for row in topic.partitions
        )
    )


def read_disks(client: Client, broker: MetadataResponseBroker) -> BrokerDisks:
    """The log directories of a broker, without those that are offline.

    raises  KafkaError, ClientError
    """
    response = client.connection(broker).request(
        DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
    )
    if not response.results:
        raise refused(response.error_code or ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    sizes: dict[TopicPartition, int] = {}
    free, is_known = 0, True
    for result in response.results:
        if result.error_code:
            is_known = False
            continue
        is_known &= result.usable_bytes >= 0
        free += result.usable_bytes
        for topic in result.topics:
            for row in topic.partitions:
                if not row.is_future_key:
                    sizes[TopicPartition(topic.name, row.partition_index)] = (
                        row.partition_size_bytes
                    )
    return BrokerDisks(sizes, free + sum(sizes.values()) if is_known else -1)


def read_metadata(connection: BrokerConnection) -> MetadataResponse:
    """Brokers and all topics, as one broker knows them."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return connection.request(request, MetadataResponse)


def read_agreed(
    client: Client,
) -> tuple[MetadataResponse, dict[TopicPartition, OngoingReassignment]]:
    """Metadata and reassignments of one moment.

    Brokers hear later than the controller that a reassignment has ended: their metadata alone would
    count its old replicas.

    raises  KafkaError when the brokers do not agree on the replicas in the time-out of the client;
            ClientError
    """

    def attempt() -> tuple[MetadataResponse, dict[TopicPartition, OngoingReassignment]] | None:
        ongoing = list_reassignments(client)
        metadata = client.metadata()
        replicas = _replicas(metadata)
        for broker in metadata.brokers:
            connection = client.connection(broker)
            if _replicas(read_metadata(connection)) != replicas:
                return None
        return (metadata, ongoing) if list_reassignments(client) == ongoing else None

    agreed = client.retry(attempt)
    if agreed is None:
        raise timed_out("The brokers do not agree on the replicas of partitions.")
    return agreed


def _replicas(metadata: MetadataResponse) -> dict[TopicPartition, tuple[int, ...]]:
    return {key: status.replicas for key, status in partition_statuses(metadata).items()}


def read_cluster(
    client: Client, *, sample_ms: int = 0, exclude: re.Pattern[str] | None = None
) -> ClusterState:
    """Read the state of a cluster.

    sample_ms  between the two samples of rates; 0: rates are not read
    exclude    matches the whole names of topics that are not to be moved
    raises     KafkaError, ClientError
    """
    metadata, ongoing = read_agreed(client)
    brokers = sorted(metadata.brokers, key=lambda broker: broker.node_id)
    before, read_at_s = {}, time.monotonic()
    if sample_ms:
        before = {broker.node_id: read_disks(client, broker) for broker in brokers}
        time.sleep(sample_ms / 1000)
    elapsed_s = time.monotonic() - read_at_s
    disks = {broker.node_id: read_disks(client, broker) for broker in brokers}
    states = partition_statuses(metadata)
    rows = []
    for partition, state in states.items():
        row = model_partition(partition, state, ongoing.get(partition), disks)
        if row.leader in before:
            grown = row.size_bytes - before[row.leader].sizes.get(partition, row.size_bytes)
            row = row._replace(bytes_in_per_s=max(0, grown) / elapsed_s)
        is_excluded = exclude is not None and exclude.fullmatch(partition.topic) is not None
        rows.append(row._replace(is_excluded=is_excluded))
    live = [broker.node_id for broker in brokers]
    keepers = {node_id for row in rows for node_id in row.replicas}
    model = ClusterModel(
        tuple(
            ModelBroker(broker.node_id, broker.rack or None, disks[broker.node_id].disk_bytes)
            for broker in brokers
        ),
        tuple(rows),
    )
    return ClusterState(model, metadata, states, ongoing, tuple(sorted(keepers.difference(live))))


def model_partition(
    partition: TopicPartition,
    state: PartitionStatus,
    ongoing: OngoingReassignment | None,
    disks: Mapping[int, BrokerDisks],
) -> ModelPartition:
    """The partition as it is after its reassignment, with the size of its largest replica."""
    replicas = state.replicas
    if ongoing is not None:
        replicas = tuple(node_id for node_id in ongoing.replicas if node_id not in ongoing.removing)
    sizes = [
        disks[node_id].sizes.get(partition, 0) for node_id in state.replicas if node_id in disks
    ]
    leader_disks = disks.get(state.leader)
    size = max(sizes, default=0)
    if leader_disks is not None:
        size = leader_disks.sizes.get(partition, size)
    return ModelPartition(partition, replicas, state.leader, size)
