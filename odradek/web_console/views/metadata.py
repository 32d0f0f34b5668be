"""What all pages read: metadata, log directories and configs; configs with their sources."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client, ClientError
from odradek.tools.cluster_status.queries import directory_status
from odradek.tools.cluster_status.render import LogDirectoryStatus
from odradek.tools.configs.resources import SOURCES, TOPIC
from odradek.tools.errors import check, error_text, refused
from odradek.web_console.cluster import ShownCluster

METADATA_AGE_S: Final = 1.0
LOG_DIRS_AGE_S: Final = 10.0


class DirectoriesShown(NamedTuple):
    """The log directories of all brokers."""

    by_broker: dict[int, list[LogDirectoryStatus] | str]
    """Or why they are not known."""
    sizes: dict[TopicPartition, int]
    """The size in bytes of the largest replica."""


def read_metadata(cluster: ShownCluster) -> MetadataResponse:
    """Brokers and all topics, up to METADATA_AGE_S old.

    raises  ToolError
    """
    return cluster.remembered("metadata", METADATA_AGE_S, _ask_metadata)


def _ask_metadata(client: Client) -> MetadataResponse:
    response = client.metadata()
    response.brokers.sort(key=lambda broker: broker.node_id)
    response.topics.sort(key=lambda topic: topic.name or "")
    return response


def find_topic(metadata: MetadataResponse, name: str) -> MetadataResponseTopic:
    """raises  KafkaError"""
    for topic in metadata.topics:
        if topic.name == name:
            return topic
    raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")


def read_log_directories(cluster: ShownCluster, age_s: float = LOG_DIRS_AGE_S) -> DirectoriesShown:
    """Directories and sizes of logs, up to `age_s` old.

    raises  ToolError
    """
    metadata = read_metadata(cluster)
    return cluster.remembered("log directories", age_s, partial(_ask_log_directories, metadata))


def _ask_log_directories(metadata: MetadataResponse, client: Client) -> DirectoriesShown:
    by_broker: dict[int, list[LogDirectoryStatus] | str] = {}
    sizes: dict[TopicPartition, int] = {}
    for broker in metadata.brokers:
        try:
            response = client.connection(broker).request(
                DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
        except ClientError as error:
            by_broker[broker.node_id] = str(error)
            continue
        if response.error_code:
            by_broker[broker.node_id] = error_text(response.error_code)
            continue
        by_broker[broker.node_id] = [directory_status(result) for result in response.results]
        for result in response.results:
            for topic in result.topics:
                for row in topic.partitions:
                    key = TopicPartition(topic.name, row.partition_index)
                    sizes[key] = max(sizes.get(key, 0), row.partition_size_bytes)
    return DirectoriesShown(by_broker, sizes)


HIDDEN: Final = "[hidden]"
OWN_SOURCES: Final = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")
DEFAULT_SOURCE: Final = 5


def read_configs(cluster: ShownCluster, kind: int, name: str) -> list[dict[str, Any]]:
    """The configs of a resource: those that were set first, then by name.

    kind    BROKER or TOPIC
    raises  ToolError
    """

    def ask(client: Client) -> DescribeConfigsResponse:
        connection = client.any() if kind == TOPIC else client.broker(int(name))
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[resource])
        return connection.request(request, DescribeConfigsResponse)

    (result,) = cluster.call(ask).results
    check(result)
    rows = [
        {
            "name": row.name,
            "value": HIDDEN if row.is_sensitive else row.value,
            "source": SOURCES.get(row.config_source, "UNKNOWN"),
            "is_read_only": row.read_only,
            "is_sensitive": row.is_sensitive,
            "is_default": row.config_source == DEFAULT_SOURCE,
        }
        for row in result.configs
    ]
    return sorted(rows, key=lambda row: (row["source"] not in OWN_SOURCES, row["name"]))
