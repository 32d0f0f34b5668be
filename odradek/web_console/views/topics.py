"""The topics of a cluster, and one of them with its partitions and configs."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.configs.resources import TOPIC
from odradek.tools.partition_offsets import list_offsets
from odradek.tools.reassign_partitions.cluster import list_reassignments
from odradek.web_console.arguments import PageArguments, page_of
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.views.metadata import (
    find_topic,
    read_configs,
    read_log_directories,
    read_metadata,
)

SORTS: Final = ("name", "partitions", "size", "unhealthy")


def topics_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """A page of topics.

    raises  ToolError
    """
    metadata = read_metadata(cluster)
    sizes = read_log_directories(cluster).sizes
    query = arguments.text("q").lower()
    shows_internal = arguments.flag("internal")
    sort = arguments.choice("sort", SORTS)
    live = {broker.node_id for broker in metadata.brokers}
    rows = [
        topic_row(topic, live, sizes)
        for topic in metadata.topics
        if topic.name is not None
        and query in topic.name.lower()
        and (shows_internal or not topic.is_internal)
    ]
    if sort != "name":
        rows.sort(
            key=lambda row: (
                row["offline"] + row["under_replicated"] if sort == "unhealthy" else row[sort]
            ),
            reverse=True,
        )
    page = page_of(rows, arguments.page())
    keys = [
        TopicPartition(str(topic.name), row.partition_index)
        for topic in metadata.topics
        if any(topic.name == shown["name"] for shown in page.rows)
        for row in topic.partitions
        if row.leader_id in live
    ]
    starts, ends = cluster.call(partial(_read_ranges, keys))
    counts: dict[str, int] = {}
    for key in keys:
        # The number of records, or more.
        counts[key.topic] = counts.get(key.topic, 0) + ends[key] - starts[key]
    for shown in page.rows:
        shown["records_max"] = counts.get(shown["name"], 0)
    return {"topics": page._asdict(), "query": query, "sort": sort, "internal": shows_internal}


def topic_row(
    topic: MetadataResponseTopic, live: set[int], sizes: dict[TopicPartition, int]
) -> dict[str, Any]:
    """Figures of a topic."""
    name = topic.name or ""
    partitions = topic.partitions
    return {
        "name": name,
        "is_internal": topic.is_internal,
        "partitions": len(partitions),
        "replication": max((len(row.replica_nodes) for row in partitions), default=0),
        "offline": sum(row.leader_id not in live for row in partitions),
        "under_replicated": sum(len(row.isr_nodes) < len(row.replica_nodes) for row in partitions),
        "size": sum(sizes.get(TopicPartition(name, row.partition_index), 0) for row in partitions),
    }


def topic_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """A topic with a page of its partitions.

    raises  ToolError
    """
    name = arguments.required("topic")
    metadata = read_metadata(cluster)
    topic = find_topic(metadata, name)
    sizes = read_log_directories(cluster).sizes
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    page = page_of(rows, arguments.page())
    live = {broker.node_id for broker in metadata.brokers}
    keys = [TopicPartition(name, row.partition_index) for row in page.rows if row.leader_id in live]
    starts, ends = cluster.call(partial(_read_ranges, keys))
    partitions = []
    for row in page.rows:
        key = TopicPartition(name, row.partition_index)
        partitions.append(
            {
                "partition": row.partition_index,
                "leader": row.leader_id if row.leader_id in live else None,
                "leader_epoch": row.leader_epoch,
                "replicas": [
                    {
                        "id": node_id,
                        "is_in_sync": node_id in row.isr_nodes,
                        "is_live": node_id in live,
                    }
                    for node_id in row.replica_nodes
                ],
                "is_preferred": row.replica_nodes[:1] == [row.leader_id],
                "start": starts.get(key),
                "end": ends.get(key),
                "size": sizes.get(key),
            }
        )
    return {
        "topic": topic_row(topic, live, sizes),
        "topic_id": str(topic.topic_id),
        "partitions": {**page._asdict(), "rows": partitions},
    }


def _read_ranges(
    keys: list[TopicPartition], client: Client
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    return (
        list_offsets(client, keys, EARLIEST_TIMESTAMP),
        list_offsets(client, keys, LATEST_TIMESTAMP),
    )


def topic_configs_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """raises  ToolError"""
    name = arguments.required("topic")
    topic = find_topic(read_metadata(cluster), name)
    return {"topic": {"name": topic.name}, "configs": read_configs(cluster, TOPIC, name)}


def health(metadata: MetadataResponse) -> dict[str, int]:
    """How many partitions there are, have no leader, and lack in-sync replicas."""
    live = {broker.node_id for broker in metadata.brokers}
    partitions = [row for topic in metadata.topics for row in topic.partitions]
    return {
        "brokers": len(live),
        "topics": sum(not topic.is_internal for topic in metadata.topics),
        "partitions": len(partitions),
        "offline": sum(row.leader_id not in live for row in partitions),
        "under_replicated": sum(len(row.isr_nodes) < len(row.replica_nodes) for row in partitions),
    }


def topic_change_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """What the forms of a topic begin with.

    raises  ToolError
    """
    name = arguments.required("topic")
    metadata = read_metadata(cluster)
    topic = find_topic(metadata, name)
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    keys = [TopicPartition(name, row.partition_index) for row in rows]
    ongoing = cluster.call(partial(list_reassignments, partitions=keys))
    return {
        "partitions": [
            {"partition": row.partition_index, "replicas": row.replica_nodes} for row in rows
        ],
        "brokers": [broker.node_id for broker in metadata.brokers],
        "ongoing": [
            f"{key.partition}: {','.join(map(str, move.replicas))}" for key, move in ongoing.items()
        ],
    }
