"""Requests that create and delete topics, and add partitions to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.topic_partition import ZERO_UUID
from odradek.tools.client import Client

TIMEOUT_MS: Final = 30_000
"""The timeout in requests to the controller; Kafka: request.timeout.ms."""


def new_topic(
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    *,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str],
) -> CreatableTopic:
    """A topic to be created.

    partitions, replication_factor  -1: the default of the cluster, or what `assignment` gives
    assignment                      brokers of each partition; empty: the cluster assigns replicas
    """
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(assignment)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def create_topics(
    client: Client, topics: Sequence[CreatableTopic], *, validate_only: bool = False
) -> list[CreatableTopicResult]:
    """Create topics, or only check them; the result of each.

    raises  ClientError
    """
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    return client.controller(request, CreateTopicsResponse).topics


def delete_topics(client: Client, names: Sequence[str]) -> list[DeletableTopicResult]:
    """Delete topics; the result of each.

    raises  ClientError
    """
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names],
        topic_names=list(names),
        timeout_ms=TIMEOUT_MS,
    )
    return client.controller(request, DeleteTopicsResponse).responses


def add_partitions(
    client: Client, topics: Mapping[str, tuple[int, Sequence[Sequence[int]] | None]]
) -> list[CreatePartitionsTopicResult]:
    """Add partitions to topics; the result of each.

    topics  name -> the number of partitions that the topic is to have, and the brokers of each new
            one; None: the cluster assigns replicas
    raises  ClientError
    """
    rows = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if assignment is None
            else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignment],
        )
        for name, (count, assignment) in topics.items()
    ]
    request = CreatePartitionsRequest(topics=rows, timeout_ms=TIMEOUT_MS, validate_only=False)
    return client.controller(request, CreatePartitionsResponse).results
