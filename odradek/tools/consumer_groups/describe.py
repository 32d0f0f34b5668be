"""`odradek consumer-groups --describe`: offsets, members or state of groups; tables of the tool.

As in Kafka's tool, some tables begin each line with a line feed, others end it with one.
Source: Kafka 3.9's ConsumerGroupCommand (describeGroups, collectGroupsOffsets,
shouldPrintMemberState, printOffsets, printMembers, printStates, printGroupInfo,
printOffsetsToReset, deleteOffsets).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.messages.list_groups import ListedGroup
from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.consumer_groups.group_offsets import committed_offsets
from odradek.tools.consumer_groups.plan_csv import ResetPlan
from odradek.tools.consumer_groups.queries import UNKNOWN, Description, Member, describe
from odradek.tools.errors import KafkaError, ToolError
from odradek.tools.options import Options
from odradek.tools.partition_offsets import list_offsets

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


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


MISSING: Final = "-"
WIDTH: Final = 15
INSTANCE_WIDTH: Final = 17
COORDINATOR_WIDTH: Final = 25
OFFSET_COLUMNS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)


class OffsetRow(NamedTuple):
    """Offset and lag of a group in one partition."""

    group: str
    partition: TopicPartition
    offset: int | None
    end_offset: int
    member: Member | None

    def columns(self) -> list[str]:
        """The columns; a missing value is a dash."""
        lag = None if self.offset is None else self.end_offset - self.offset
        owner = [MISSING] * 3
        if self.member is not None:
            owner = [self.member.member_id, self.member.host, self.member.client_id]
        numbers = (self.offset, self.end_offset, lag)
        return [
            self.group,
            self.partition.topic,
            str(self.partition.partition),
            *(MISSING if number is None else str(number) for number in numbers),
            *owner,
        ]


def _line(columns: Sequence[str], widths: Sequence[int]) -> str:
    """Columns, padded to `widths`; columns beyond the last width are not padded."""
    padded = [column.ljust(width) for column, width in zip(columns, widths, strict=False)]
    return " ".join([*padded, *columns[len(widths) :]])


def offsets_table(rows: Sequence[OffsetRow]) -> str:
    """The offsets of a group; each line begins with a line feed."""
    columns = [row.columns() for row in rows]
    group, topic, member_id, host = (
        max([WIDTH, *(len(row[index]) for row in columns)]) for index in (0, 1, 6, 7)
    )
    widths = (group, topic, 10, 15, 15, 15, member_id, host)
    return "".join("\n" + _line(row, widths) for row in (OFFSET_COLUMNS, *columns))


def members_table(group: str, members: Sequence[Member] | None, *, verbose: bool) -> str:
    """The members of a group: an empty line, then lines that end with a line feed.

    members  None: print the header only
    """
    rows = [
        [
            group,
            member.member_id,
            member.instance_id or "",
            member.host,
            member.client_id,
            str(len(member.partitions)),
            assignment_text(member.partitions),
        ]
        for member in members or ()
    ]
    names = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    least = (WIDTH, WIDTH, INSTANCE_WIDTH, WIDTH, WIDTH)
    widths = [max([width, *(len(row[index]) for row in rows)]) for index, width in enumerate(least)]
    widths.append(WIDTH)
    has_instances = any(row[2] for row in rows)
    lines = []
    for row in ([*names, "ASSIGNMENT"], *rows):
        kept = [index for index in range(len(names)) if has_instances or index != 2]
        line = _line([row[index] for index in kept], [widths[index] for index in kept])
        lines.append(f"{line} {row[-1] if verbose else ''}\n")
    return "\n" + "".join(lines)


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """The partition numbers of each topic in parentheses; numbers are sorted as strings."""
    if not partitions:
        return MISSING
    by_topic: dict[str, list[str]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(str(partition.partition))
    return ", ".join(sorted(f"({','.join(sorted(indexes))})" for indexes in by_topic.values()))


def state_table(group: str, description: Description) -> str:
    """The state of a group in one row, after an empty line."""
    where = description.coordinator
    coordinator = f"{where.host}:{where.port}  ({where.node_id})"
    # Kafka's tool widens the GROUP column, not the COORDINATOR column, by the coordinator.
    widths = (max(COORDINATOR_WIDTH, len(coordinator)), 25, 20, 15)
    names = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    row = (
        group,
        coordinator,
        description.assignor,
        description.state,
        str(len(description.members)),
    )
    return "".join("\n" + _line(columns, widths) for columns in (names, row))


def groups_table(groups: Sequence[ListedGroup], *, has_type: bool, has_state: bool) -> str:
    """Groups, with types and states when asked for."""
    width = max([WIDTH, *(len(group.group_id) for group in groups)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(group.group_id, group.group_type, group.group_state) for group in groups]
    shown = [0, *([1] if has_type else []), *([2] if has_state else [])]
    return "\n".join(_line([row[index] for index in shown], (width, 20, 20)) for row in rows)


def plans_table(plans: Mapping[str, ResetPlan]) -> str:
    """The new offsets of a reset, after an empty line.

    Differs from Kafka: its 3.9 prints the header and all rows in one line, without a line feed.
    """
    if not plans:
        return ""
    rows: list[tuple[str, ...]] = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    rows += [
        (group, partition.topic, str(partition.partition), str(offset))
        for group, plan in plans.items()
        for partition, offset in plan.items()
    ]
    return "".join(f"\n{_line(row, (30, 30, 10, 15))}" for row in rows) + "\n"


def deletions_table(rows: Iterable[tuple[TopicPartition, str]]) -> str:
    """The result of deleting offsets, one row per partition, after an empty line.

    Differs from Kafka: its 3.9 prints the header and all rows in one line, without a line feed.

    rows  partition -1: a topic whose partitions are unknown
    """
    lines: list[tuple[str, ...]] = [("TOPIC", "PARTITION", "STATUS")]
    lines += [
        (
            partition.topic,
            str(partition.partition) if partition.partition >= 0 else "Not Provided",
            status,
        )
        for partition, status in rows
    ]
    return "".join(f"\n{_line(line, (30, 15, 15))}" for line in lines) + "\n"
