"""The requests of `odradek reassign-partitions` to the cluster.

Source: Kafka 3.9's ReassignPartitionsCommand and its admin client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.topic_partition import TopicPartition, by_topic
from odradek.tools.client import Client
from odradek.tools.errors import check, error_text, partition_text, refused

TIMEOUT_MS: Final = 30_000


class OngoingReassignment(NamedTuple):
    """A reassignment that is under way."""

    replicas: Sequence[int]
    """All, with those that are added and removed."""
    adding: Sequence[int]
    removing: Sequence[int]


def list_reassignments(
    client: Client, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingReassignment]:
    """The reassignments of `partitions` that are under way; of all partitions when it is None.

    raises  KafkaError, ClientError
    """
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    response = client.controller(
        ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics),
        ListPartitionReassignmentsResponse,
    )
    check(response)
    return {
        TopicPartition(topic.name, partition.partition_index): OngoingReassignment(
            partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def alter_reassignments(
    client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, str]:
    """Start reassignments, or cancel those whose target is None; the errors, as texts.

    raises  ClientError
    """
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(
                    partition_index=index, replicas=None if target is None else list(target)
                )
                for index in indexes
                for target in (targets[TopicPartition(name, index)],)
            ],
        )
        for name, indexes in by_topic(sorted(targets)).items()
    ]
    response = client.controller(
        AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics),
        AlterPartitionReassignmentsResponse,
    )
    if response.error_code:
        text = response.error_message or error_text(response.error_code)
        return dict.fromkeys(targets, text)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_message
        or error_text(partition.error_code)
        for topic in response.responses
        for partition in topic.partitions
        if partition.error_code
    }


def find_replicas(client: Client, topics: Iterable[str]) -> dict[str, dict[int, list[int]]]:
    """Topic -> partition -> replicas, of the topics that exist.

    raises  KafkaError, ClientError
    """
    names = sorted(set(topics))
    replicas: dict[str, dict[int, list[int]]] = {}
    for topic in client.metadata(names).topics if names else ():
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        check(topic)
        replicas[topic.name or ""] = {
            partition.partition_index: partition.replica_nodes
            for partition in sorted(topic.partitions, key=lambda row: row.partition_index)
        }
    return replicas


def replicas_of_topics(client: Client, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """The replicas of every partition of `topics`.

    raises  KafkaError when a topic does not exist, ClientError
    """
    names = sorted(set(topics))
    replicas_of = find_replicas(client, names)
    for topic in names:
        if topic not in replicas_of:
            raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic} not found.")
    return {
        TopicPartition(topic, index): replicas
        for topic, partitions in replicas_of.items()
        for index, replicas in partitions.items()
    }


def replicas_of_partitions(
    client: Client, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[int]]:
    """The replicas of `partitions`.

    raises  KafkaError when one does not exist, ClientError
    """
    everything = replicas_of_topics(client, (partition.topic for partition in partitions))
    missing = sorted({partition for partition in partitions if partition not in everything})
    if missing:
        names = ", ".join(map(partition_text, missing))
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {names}")
    return {partition: everything[partition] for partition in partitions}


def live_brokers(client: Client) -> dict[int, str | None]:
    """Broker -> rack."""
    return {broker.node_id: broker.rack for broker in client.metadata([]).brokers}
