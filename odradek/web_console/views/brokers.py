"""All clusters, the home page of one, its brokers, and one of them with its configs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.tools.cluster_status.render import LogDirectoryStatus
from odradek.tools.configs.resources import BROKER
from odradek.tools.errors import ToolError, refused
from odradek.web_console.arguments import PageArguments
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.views.metadata import read_configs, read_log_directories, read_metadata
from odradek.web_console.views.topics import health


def brokers_view(cluster: ShownCluster, _: PageArguments) -> dict[str, Any]:
    """raises  ToolError"""
    metadata = read_metadata(cluster)
    return {
        "cluster_id": metadata.cluster_id,
        "controller_id": metadata.controller_id,
        "brokers": broker_rows(cluster, metadata),
        "missing": missing_brokers(metadata),
    }


def broker_rows(cluster: ShownCluster, metadata: MetadataResponse) -> list[dict[str, Any]]:
    """A row for each live broker.

    raises  ToolError
    """
    directories = read_log_directories(cluster).by_broker
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    for topic in metadata.topics:
        for partition in topic.partitions:
            leaders[partition.leader_id] = leaders.get(partition.leader_id, 0) + 1
            for node_id in partition.replica_nodes:
                replicas[node_id] = replicas.get(node_id, 0) + 1
            for node_id in partition.isr_nodes:
                in_sync[node_id] = in_sync.get(node_id, 0) + 1
    rows = []
    for broker in metadata.brokers:
        node_id = broker.node_id
        known_directories = directories.get(node_id, "not read yet")
        is_unknown = isinstance(known_directories, str)
        rows.append(
            {
                "id": node_id,
                "address": f"{broker.host}:{broker.port}",
                "rack": broker.rack,
                "is_controller": node_id == metadata.controller_id,
                "leaders": leaders.get(node_id, 0),
                "replicas": replicas.get(node_id, 0),
                "in_sync": in_sync.get(node_id, 0),
                "directories": []
                if isinstance(known_directories, str)
                else [_directory(status) for status in known_directories],
                "directories_error": known_directories if is_unknown else None,
            }
        )
    return rows


def _directory(status: LogDirectoryStatus) -> dict[str, Any]:
    """Sizes of its volume that the broker does not say are None."""
    row = status._asdict()
    for name in ("total_bytes", "usable_bytes"):
        row[name] = None if row[name] < 0 else row[name]
    return row


def missing_brokers(metadata: MetadataResponse) -> list[int]:
    """Brokers that have replicas and are not registered."""
    live = {broker.node_id for broker in metadata.brokers}
    replicas = {
        node_id
        for topic in metadata.topics
        for partition in topic.partitions
        for node_id in partition.replica_nodes
    }
    return sorted(replicas - live)


def broker_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """raises  ToolError"""
    metadata = read_metadata(cluster)
    node_id = arguments.number("broker", -1, 0, 2**31 - 1)
    rows = [row for row in broker_rows(cluster, metadata) if row["id"] == node_id]
    if not rows:
        raise refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {node_id}")
    return {"broker": rows[0], "configs": read_configs(cluster, BROKER, str(node_id))}


def clusters_view(clusters: Sequence[ShownCluster]) -> dict[str, Any]:
    """A row for each cluster, or why it is not known."""
    rows = []
    for cluster in clusters:
        row: dict[str, Any] = {
            "name": cluster.name,
            "bootstrap": cluster.bootstrap,
            "error": None,
            "health": None,
        }
        try:
            metadata = read_metadata(cluster)
        except ToolError as error:
            row["error"] = str(error)
        else:
            row |= {
                "cluster_id": metadata.cluster_id,
                "controller_id": metadata.controller_id,
                "health": health(metadata),
            }
        rows.append(row)
    return {"rows": rows}


def overview_view(cluster: ShownCluster) -> dict[str, Any]:
    """raises  ToolError"""
    return {**brokers_view(cluster, PageArguments({})), "health": health(read_metadata(cluster))}
