"""The consumer groups of a cluster, and one of them with members, assignment and lag."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from odradek.protocol.messages.list_groups import ListedGroup
from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.consumer_groups.group_offsets import (
    committed_offsets,
    committed_offsets_of,
    lag_of,
)
from odradek.tools.consumer_groups.queries import Description, describe, list_groups
from odradek.tools.errors import KafkaError
from odradek.tools.partition_offsets import list_offsets
from odradek.web_console.arguments import PageArguments, page_of
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.views.metadata import read_metadata

GROUPS_AGE_S: Final = 1.0
MEMBERS_MAX: Final = 200
"""Members that a page shows."""


def read_groups(cluster: ShownCluster) -> list[ListedGroup]:
    """All groups, up to GROUPS_AGE_S old.

    raises  ToolError
    """
    return cluster.remembered("groups", GROUPS_AGE_S, list_groups)


def groups_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """A page of groups, with their lag.

    raises  ToolError
    """
    query = arguments.text("q").lower()
    groups = [group for group in read_groups(cluster) if query in group.group_id.lower()]
    page = page_of(groups, arguments.page())
    metadata = read_metadata(cluster)
    names = [group.group_id for group in page.rows]
    figures = cluster.call(partial(_ask_figures, names, metadata)) if names else {}
    rows = [
        {
            "id": group.group_id,
            "state": group.group_state,
            "type": group.group_type,
            **figures.get(group.group_id, {}),
        }
        for group in page.rows
    ]
    return {"groups": {**page._asdict(), "rows": rows}, "query": query}


def _ask_figures(
    names: list[str], metadata: MetadataResponse, client: Client
) -> dict[str, dict[str, Any]]:
    descriptions = describe(client, names)
    committed = committed_offsets_of(client, names)
    keys = {
        key
        for offsets in committed.values()
        if not isinstance(offsets, KafkaError)
        for key in offsets
    }
    ends = ends_of(client, metadata, keys)
    figures: dict[str, dict[str, Any]] = {}
    for name in names:
        row: dict[str, Any] = {"members": None, "topics": None, "lag": None}
        description, offsets = descriptions.get(name), committed.get(name)
        if isinstance(description, Description):
            row["members"] = len(description.members)
        if isinstance(offsets, dict):
            row["topics"] = len({key.topic for key in offsets})
            row["lag"] = lag_of(offsets, ends)
        figures[name] = row
    return figures


def ends_of(
    client: Client, metadata: MetadataResponse, keys: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """High watermarks of the partitions that exist and have a leader.

    raises  ToolError
    """
    live = {broker.node_id for broker in metadata.brokers}
    led = {
        (topic.name, row.partition_index)
        for topic in metadata.topics
        for row in topic.partitions
        if row.leader_id in live
    }
    return list_offsets(client, [key for key in keys if key in led], LATEST_TIMESTAMP)


def group_view(cluster: ShownCluster, arguments: PageArguments) -> dict[str, Any]:
    """A group with its members, and a page of its partitions.

    raises  ToolError
    """
    name = arguments.required_raw("id")
    metadata = read_metadata(cluster)
    description, offsets, ends = cluster.call(partial(_ask_group, name, metadata))
    owners = {
        partition: member for member in description.members for partition in member.partitions
    }
    keys = sorted({*owners, *offsets})
    page = page_of(keys, arguments.page())
    rows = []
    for key in page.rows:
        owner = owners.get(key)
        committed, end = offsets.get(key), ends.get(key)
        rows.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "committed": committed,
                "end": end,
                "lag": None if committed is None or end is None else max(0, end - committed),
                "member": None if owner is None else owner.member_id,
            }
        )
    coordinator = description.coordinator
    return {
        "id": name,
        "state": description.state,
        "assignor": description.assignor,
        "coordinator": coordinator.node_id,
        "lag": lag_of(offsets, ends),
        "members": [
            {
                "id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": len(member.partitions),
            }
            for member in description.members[:MEMBERS_MAX]
        ],
        "members_count": len(description.members),
        "partitions": {**page._asdict(), "rows": rows},
    }


def _ask_group(
    name: str, metadata: MetadataResponse, client: Client
) -> tuple[Description, dict[TopicPartition, int], dict[TopicPartition, int]]:
    description = describe(client, [name])[name]
    if isinstance(description, KafkaError):
        raise description
    offsets = committed_offsets(client, name)
    owned = [key for member in description.members for key in member.partitions]
    return description, offsets, ends_of(client, metadata, {*offsets, *owned})
