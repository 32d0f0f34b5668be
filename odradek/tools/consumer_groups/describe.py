"""`odradek consumer-groups --describe`: offsets, members or state of groups.

Source: Kafka 3.9's ConsumerGroupCommand (describeGroups, collectGroupsOffsets,
shouldPrintMemberState).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.consumer_groups.group_offsets import committed_offsets
from odradek.tools.consumer_groups.queries import (
    UNKNOWN,
    Description,
    Member,
    describe,
)
from odradek.tools.consumer_groups.render import (
    OffsetRow,
    members_table,
    offsets_table,
    state_table,
)
from odradek.tools.errors import KafkaError, ToolError
from odradek.tools.options import Options
from odradek.tools.partition_offsets import list_offsets

REBALANCING: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
)


def describe_groups(client: Client, options: Options, groups: Sequence[str]) -> None:
    """Print offsets, members or state of each group, sorted by name.

    raises  ToolError; before anything is printed when a group cannot be described
    """
    descriptions: dict[str, Description] = {}
    for group, description in describe(client, groups).items():
        if isinstance(description, KafkaError):
            raise ToolError(str(description))
        descriptions[group] = description
    names = sorted(descriptions)
    if options.has("members"):
        for group in names:
            _print_members(group, descriptions[group], verbose=options.has("verbose"))
    elif options.has("state"):
        for group in names:
            if _print_state_notice(group, descriptions[group].state, 1):
                print(state_table(group, descriptions[group]))
    else:
        # Kafka's tool, too, fetches all offsets before it prints the first.
        rows = {group: offset_rows(client, group, descriptions[group]) for group in descriptions}
        for group in names:
            if _print_state_notice(group, descriptions[group].state, len(rows[group])):
                print(offsets_table(rows[group]), end="")


def _print_state_notice(group: str, state: str, row_count: int) -> bool:
    """Print the line that a group's state requires; returns whether rows follow it.

    raises  ToolError for an unknown state
    """
    if state == "Dead":
        print_error(f"Consumer group '{group}' does not exist.")
    elif state == "Empty":
        print(f"\nConsumer group '{group}' has no active members.", file=sys.stderr)
    elif state in REBALANCING:
        print(f"\nWarning: Consumer group '{group}' is rebalancing.", file=sys.stderr)
    elif state == UNKNOWN:
        raise ToolError(f"Expected a valid consumer group state, but found '{state}'.")
    return state != "Dead" and row_count > 0


def print_error(message: str) -> None:
    """Print an error as Kafka's tool does: on stdout, after an empty line."""
    print(f"\nError: {message}")


def _print_members(group: str, description: Description, *, verbose: bool) -> None:
    has_more = _print_state_notice(group, description.state, len(description.members))
    members = description.members if has_more else None
    print(members_table(group, members, verbose=verbose), end="")


def offset_rows(client: Client, group: str, description: Description) -> list[OffsetRow]:
    """One row per assigned partition, then one row per other partition with an offset.

    raises  KafkaError, ClientError
    """
    offsets = committed_offsets(client, group)
    busy = [member for member in description.members if member.partitions]
    busy.sort(key=lambda member: -len(set(member.partitions)))
    assigned = [(member, sorted(set(member.partitions))) for member in busy]
    taken = {partition for _, partitions in assigned for partition in partitions}
    left = sorted(partition for partition in offsets if partition not in taken)
    rows: list[OffsetRow] = []
    parts: list[tuple[Member | None, list[TopicPartition]]] = [*assigned, (None, left)]
    for member, partitions in parts:
        ends = list_offsets(client, partitions, LATEST_TIMESTAMP)
        rows += [
            OffsetRow(group, partition, offsets.get(partition), ends[partition], member)
            for partition in partitions
        ]
    return rows
