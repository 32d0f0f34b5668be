"""All clusters, and the home page of one: health, rates, backlog, who is busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.tools.errors import ToolError
from odradek.web_console.arguments import PageArguments
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.rates import RateHistory
from odradek.web_console.views.brokers import brokers_view
from odradek.web_console.views.metadata import read_metadata
from odradek.web_console.views.topics import health


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


def overview_view(cluster: ShownCluster, history: RateHistory) -> dict[str, Any]:
    """raises  ToolError"""
    points = list(history.points)
    return {
        **brokers_view(cluster, PageArguments({})),
        "health": health(read_metadata(cluster)),
        "rates": {
            "produced": [point.produced for point in points],
            "consumed": [point.consumed for point in points],
            "bytes_stored": [point.bytes_stored for point in points],
            "backlog": [point.backlog for point in points],
        },
        "busiest_topics": [
            {"name": name, "produced": produced} for name, produced in history.topics
        ],
        "latest_groups": [{"id": group, "lag": lag} for group, lag in history.groups],
    }
