"""Changes of groups: their offsets, and groups as a whole."""

from __future__ import annotations

from functools import partial
from typing import Final

from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.consumer_groups.group_offsets import (
    commit_offsets,
    committed_offsets,
    delete_groups,
)
from odradek.tools.consumer_groups.queries import describe
from odradek.tools.consumer_groups.reset import INACTIVE
from odradek.tools.errors import KafkaError, ToolError, partition_text
from odradek.tools.partition_offsets import NO_OFFSET, list_offsets, partitions_of
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.changes.planned_change import PlannedChange, PreviewLine
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.formats import query_text
from odradek.web_console.records.query import INT64_MAX, parse_time

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
TO_OFFSET: Final = "offset"
SHIFT: Final = "shift"
TIME: Final = "time"
DEAD: Final = "Dead"
TARGETS: Final = (EARLIEST, LATEST, TO_OFFSET, SHIFT, TIME)


def plan_reset_offsets(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """New offsets of a group that has no members, each inside of its log.

    raises  ToolError
    """
    group = form.required_raw("group")
    target = form.choice("to", TARGETS)
    is_new, before, after = cluster.call(partial(_new_offsets, group, target, form))
    if not after:
        raise PageArgumentError("the group has no offsets; name a topic")

    def apply(client: Client) -> list[str]:
        if (_check_inactive(client, group) == DEAD) != is_new:
            raise ToolError("the group was created or deleted after the preview: make it again")
        commit_offsets(client, group, after)
        return [f"Committed {len(after)} offsets."]

    lines = [
        PreviewLine(partition_text(key), str(before.get(key, "none")), str(offset))
        for key, offset in sorted(after.items())
    ]
    return PlannedChange(
        "reset-offsets",
        f"Reset offsets of group {group}",
        lines,
        apply,
        {"group": group, "to": target, "offsets": {partition_text(k): v for k, v in after.items()}},
        f"/group{query_text({'id': group})}",
        warning="The group does not exist: it is created with these offsets." if is_new else "",
        typed=group if is_new else "",
    )


def _new_offsets(
    group: str, target: str, form: PageArguments, client: Client
) -> tuple[bool, dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Whether the group does not exist; its offsets before and after."""
    is_new = _check_inactive(client, group) == DEAD
    before = committed_offsets(client, group)
    topic = form.text("topic")
    keys = partitions_of(client, topic) if topic else sorted(before)
    if not keys:
        return is_new, before, {}
    starts = list_offsets(client, keys, EARLIEST_TIMESTAMP)
    ends = list_offsets(client, keys, LATEST_TIMESTAMP)
    match target:
        case "earliest":
            after = dict(starts)
        case "latest":
            after = dict(ends)
        case "offset":
            after = dict.fromkeys(keys, form.number("value", 0, 0, INT64_MAX))
        case "shift":
            step = form.number("value", 0, -INT64_MAX, INT64_MAX)
            after = {key: before[key] + step for key in keys if key in before}
        case _:
            moments = list_offsets(client, keys, parse_time(form.required("value")))
            after = {
                key: ends[key] if offset == NO_OFFSET else offset for key, offset in moments.items()
            }
    return is_new, before, {key: min(max(at, starts[key]), ends[key]) for key, at in after.items()}


def _check_inactive(client: Client, group: str) -> str:
    """The state of a group without members; DEAD for one that does not exist.

    raises  ToolError
    """
    description = describe(client, [group])[group]
    if isinstance(description, KafkaError):
        raise description
    if description.state not in INACTIVE:
        raise ToolError(
            f"the group is {description.state}: its members have to be stopped before its offsets "
            "can be changed"
        )
    return description.state


def plan_delete_group(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """raises  ToolError"""
    group = form.required_raw("group")

    def read_offsets(client: Client) -> dict[TopicPartition, int]:
        _check_inactive(client, group)
        return committed_offsets(client, group)

    def apply(client: Client) -> list[str]:
        error = delete_groups(client, [group])[group]
        if error is not None:
            raise error
        return ["Deleted the group."]

    offsets = cluster.call(read_offsets)
    return PlannedChange(
        "delete-group",
        f"Delete group {group}",
        [
            PreviewLine(partition_text(key), str(offset), "")
            for key, offset in sorted(offsets.items())
        ],
        apply,
        {"group": group},
        "/groups",
        warning="The offsets of the group are lost.",
    )
