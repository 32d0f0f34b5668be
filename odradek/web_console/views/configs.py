"""The configs of a topic or a broker, each with its source; sensitive values are not shown."""

from __future__ import annotations

from typing import Any, Final

from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.tools.client import Client
from odradek.tools.configs.resources import BROKER, SOURCES, TOPIC
from odradek.tools.errors import check
from odradek.web_console.cluster import ShownCluster

__all__ = ["BROKER", "TOPIC", "read_configs"]

HIDDEN: Final = "[hidden]"
OWN_SOURCES: Final = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")


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


DEFAULT_SOURCE: Final = 5
