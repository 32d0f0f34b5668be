"""What all pages read: the metadata of a cluster and the log directories of its brokers."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client, ClientError
from odradek.tools.errors import error_text, refused
from odradek.web_console.cluster import ShownCluster

METADATA_AGE_S: Final = 1.0
LOG_DIRS_AGE_S: Final = 10.0


class DirectoryShown(NamedTuple):
    """A log directory of a broker."""

    path: str
    error: str | None
    replicas: int
    logs_bytes: int
    total_bytes: int | None
    """The size of its volume; None: the broker does not say."""
    usable_bytes: int | None


class DirectoriesShown(NamedTuple):
    """The log directories of all brokers."""

    by_broker: dict[int, list[DirectoryShown] | str]
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
    by_broker: dict[int, list[DirectoryShown] | str] = {}
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
        directories = []
        for result in response.results:
            logs_bytes = replicas = 0
            for topic in result.topics:
                for row in topic.partitions:
                    replicas += 1
                    logs_bytes += row.partition_size_bytes
                    key = TopicPartition(topic.name, row.partition_index)
                    sizes[key] = max(sizes.get(key, 0), row.partition_size_bytes)
            directories.append(
                DirectoryShown(
                    path=result.log_dir,
                    error=error_text(result.error_code) if result.error_code else None,
                    replicas=replicas,
                    logs_bytes=logs_bytes,
                    total_bytes=result.total_bytes if result.total_bytes >= 0 else None,
                    usable_bytes=result.usable_bytes if result.usable_bytes >= 0 else None,
                )
            )
        by_broker[broker.node_id] = directories
    return DirectoriesShown(by_broker, sizes)
