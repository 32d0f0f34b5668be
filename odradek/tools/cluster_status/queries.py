"""Reads the state of a cluster over the wire.

A few requests: Metadata once; DescribeConfigs and DescribeLogDirs of each broker; DescribeConfigs
of topics by the thousand; ListGroups, OffsetFetch and ListOffsets of coordinators and leaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client, ClientError
from odradek.tools.cluster_status.render import (
    BrokerStatus,
    ClusterStatus,
    GroupsStatus,
    LogDirectoryStatus,
)
from odradek.tools.consumer_groups.group_offsets import committed_offsets_of
from odradek.tools.consumer_groups.queries import list_groups
from odradek.tools.errors import KafkaError, ToolError, check, error_text
from odradek.tools.partition_offsets import list_offsets

TOPIC: Final = 2
BROKER: Final = 4
"""Types of resources with configs."""
RESOURCES_AT_ONCE: Final = 1_000
GROUPS_AT_ONCE: Final = 1_000
MIN_ISR: Final = "min.insync.replicas"
PROTOCOL: Final = "inter.broker.protocol.version"


def read_status(client: Client) -> ClusterStatus:
    """Ask for everything; raises ClientError when no broker can be reached."""
    metadata = client.metadata()
    brokers = sorted(metadata.brokers, key=lambda broker: broker.node_id)
    live = [broker.node_id for broker in brokers]
    partitions = {
        TopicPartition(topic.name, partition.partition_index): partition
        for topic in metadata.topics
        if topic.name is not None
        for partition in topic.partitions
    }
    keys = sorted(partitions)
    replicas = {node_id for partition in partitions.values() for node_id in partition.replica_nodes}
    online = [key for key in keys if partitions[key].leader_id in live]
    isr_sizes = {key: len(partitions[key].isr_nodes) for key in keys}
    return ClusterStatus(
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        brokers=[_broker(client, broker) for broker in brokers],
        missing=sorted(replicas.difference(live)),
        topics=len(metadata.topics),
        partitions=len(keys),
        offline=[key for key in keys if partitions[key].leader_id not in live],
        under_min_isr=_under_min_isr(client, metadata, isr_sizes),
        under_replicated=[
            key for key in keys if isr_sizes[key] < len(partitions[key].replica_nodes)
        ],
        directories={broker.node_id: _directories(client, broker) for broker in brokers},
        groups=_groups(client, online),
    )


def _broker(client: Client, broker: MetadataResponseBroker) -> BrokerStatus:
    protocol: str | None = None
    try:
        configs = config_values(client.connection(broker), BROKER, [str(broker.node_id)], PROTOCOL)
        protocol = configs.get(str(broker.node_id))
    except ToolError:
        # Its address is known, and why it does not respond is said of its directories.
        pass
    return BrokerStatus(broker.node_id, f"{broker.host}:{broker.port}", broker.rack, protocol)


def config_values(
    connection: BrokerConnection, resource_type: int, names: Sequence[str], config: str
) -> dict[str, str]:
    """The value of one config by resource; RESOURCES_AT_ONCE are asked for in a request.

    raises  KafkaError, ClientError
    """
    values: dict[str, str] = {}
    for start in range(0, len(names), RESOURCES_AT_ONCE):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource_type, resource_name=name, configuration_keys=[config]
                )
                for name in names[start : start + RESOURCES_AT_ONCE]
            ]
        )
        for result in connection.request(request, DescribeConfigsResponse).results:
            check(result)
            for row in result.configs:
                if row.name == config and row.value is not None:
                    values[result.resource_name] = row.value
    return values


def _under_min_isr(
    client: Client, metadata: MetadataResponse, isr_sizes: Mapping[TopicPartition, int]
) -> list[TopicPartition] | str:
    names = sorted(topic.name for topic in metadata.topics if topic.name is not None)
    try:
        min_isr = config_values(client.any(), TOPIC, names, MIN_ISR)
    except ToolError as error:
        return str(error)
    return [key for key, size in isr_sizes.items() if size < int(min_isr.get(key.topic, "1"))]


def _directories(client: Client, broker: MetadataResponseBroker) -> list[LogDirectoryStatus] | str:
    try:
        response = client.connection(broker).request(
            DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
        )
    except ClientError as error:
        return str(error)
    if not response.results:
        return error_text(response.error_code)
    return [directory_status(result) for result in response.results]


def directory_status(result: DescribeLogDirsResult) -> LogDirectoryStatus:
    """What a response says of a log directory."""
    sizes = [
        partition.partition_size_bytes for topic in result.topics for partition in topic.partitions
    ]
    return LogDirectoryStatus(
        path=result.log_dir,
        error=error_text(result.error_code) if result.error_code else None,
        replicas=len(sizes),
        logs_bytes=sum(sizes),
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
    )


def _groups(client: Client, online: Iterable[TopicPartition]) -> GroupsStatus | str:
    try:
        names = [group.group_id for group in list_groups(client)]
        committed: list[tuple[TopicPartition, int]] = []
        unknown = 0
        for start in range(0, len(names), GROUPS_AT_ONCE):
            together = committed_offsets_of(client, names[start : start + GROUPS_AT_ONCE])
            for offsets in together.values():
                if isinstance(offsets, KafkaError):
                    unknown += 1
                else:
                    committed += offsets.items()
        led = dict.fromkeys(online)
        ends = list_offsets(
            client, dict.fromkeys(key for key, _ in committed if key in led), LATEST_TIMESTAMP
        )
    except ToolError as error:
        return str(error)
    lags = [max(ends[key] - offset, 0) for key, offset in committed if key in ends]
    return GroupsStatus(
        group_count=len(names),
        lag=sum(lags),
        unknown=unknown,
        leaderless=len(committed) - len(lags),
    )
