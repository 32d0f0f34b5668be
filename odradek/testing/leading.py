"""Moves the leadership of a partition, by the requests that an administrator uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.testing.waiting import NotReached, wait_for
from odradek.tools.client import Client
from odradek.tools.errors import refused
from odradek.tools.reassign_partitions.cluster import alter_reassignments

PREFERRED: Final = 0
TIMEOUT_MS: Final = 30_000
TIMEOUT_S: Final = 30.0

Replicas = Callable[[], tuple[int, Sequence[int], Sequence[int]]]
"""Returns leader, replicas and in-sync replicas."""


def preferred_replicas(replicas: Sequence[int], broker: int) -> list[int]:
    """The replicas with a broker as the first one; if it lacks, it takes the last place."""
    others = [replica for replica in replicas if replica != broker]
    return [broker, *others][: len(replicas)]


def move_leader(client: Client, partition: TopicPartition, broker: int, current: Replicas) -> None:
    """Make a broker the preferred replica, have it elected, and wait until it leads.

    raises  ClientError; KafkaError; NotReached when it does not come into sync
    """
    replicas = preferred_replicas(current()[1], broker)
    if list(current()[1]) != replicas:
        errors = alter_reassignments(client, {partition: replicas})
        if errors:
            raise NotReached(f"{partition.topic}-{partition.partition}: {errors[partition]}")
    wait_for(
        lambda: list(current()[1]) == replicas and broker in current()[2],
        f"broker {broker} is in sync",
        timeout_s=TIMEOUT_S,
    )
    elect_preferred(
        client, [TopicPartitions(topic=partition.topic, partitions=[partition.partition])]
    )


def are_in_sync(client: Client) -> bool:
    """Whether every broker knows all replicas of all partitions to be in sync.

    raises  ClientError
    """
    return all(
        set(partition.isr_nodes) == set(partition.replica_nodes)
        for partition in _partitions(client)
    )


def are_led_by_preferred(client: Client) -> bool:
    """Whether every broker knows the first replica of each partition to lead it.

    raises  ClientError
    """
    return all(
        partition.leader_id == partition.replica_nodes[0] for partition in _partitions(client)
    )


def _partitions(client: Client) -> Iterator[MetadataResponsePartition]:
    """All partitions as each broker knows them."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    for broker in client.metadata([]).brokers:
        connection = client.connection(broker)
        for topic in connection.request(request, MetadataResponse).topics:
            yield from topic.partitions


def elect_preferred(client: Client, partitions: list[TopicPartitions] | None = None) -> None:
    """Have the first replica of each partition lead.

    partitions  None: all
    raises      ClientError; KafkaError
    """
    response = client.controller(
        ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=partitions, timeout_ms=TIMEOUT_MS
        ),
        ElectLeadersResponse,
    )
    if response.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
        raise refused(response.error_code, "no leader was elected")
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                raise refused(
                    result.error_code, f"{topic.topic}-{result.partition_id}: not elected"
                )
