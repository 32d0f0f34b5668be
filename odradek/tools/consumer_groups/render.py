"""The tables of `odradek consumer-groups`: columns as wide as Kafka's tool makes them.

Lines of offsets and of resets begin with the line feed that others end with, and those of a reset
and of deleted offsets follow each other without any, as in Kafka 3.9.
Source: Kafka 3.9's ConsumerGroupCommand (printOffsets, printMembers, printStates, printGroupInfo,
printOffsetsToReset, deleteOffsets).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.messages.list_groups import ListedGroup
from odradek.tools.consumer_groups.java_hash_order import TopicPartition
from odradek.tools.consumer_groups.queries import Description, Member
from odradek.tools.consumer_groups.reset_plan import Plan

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
    """How far a group is with a partition."""

    group: str
    partition: TopicPartition
    offset: int | None
    end_offset: int
    member: Member | None

    def columns(self) -> list[str]:
        """What is printed; a dash for nothing."""
        lag = None if self.offset is None else self.end_offset - self.offset
        who = [MISSING] * 3
        if self.member is not None:
            who = [self.member.member_id, self.member.host, self.member.client_id]
        numbers = (self.offset, self.end_offset, lag)
        return [
            self.group,
            self.partition.topic,
            str(self.partition.partition_index),
            *(MISSING if number is None else str(number) for number in numbers),
            *who,
        ]


def _line(columns: Sequence[str], widths: Sequence[int]) -> str:
    """The last columns may go without a width."""
    padded = [column.ljust(width) for column, width in zip(columns, widths, strict=False)]
    return " ".join([*padded, *columns[len(widths) :]])


def offsets_table(rows: Sequence[OffsetRow]) -> str:
    """How far a group is; a line feed before each line."""
    columns = [row.columns() for row in rows]
    group, topic, member_id, host = (
        max([WIDTH, *(len(row[index]) for row in columns)]) for index in (0, 1, 6, 7)
    )
    widths = (group, topic, 10, 15, 15, 15, member_id, host)
    return "".join("\n" + _line(row, widths) for row in (OFFSET_COLUMNS, *columns))


def members_table(group: str, members: Sequence[Member] | None, *, verbose: bool) -> str:
    """The members of a group; an empty line first, a line feed behind each line.

    members  None: the group has nothing to tell, and no column is widened for it
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
    """The partitions of each topic in brackets, without its name; numbers are sorted as texts."""
    if not partitions:
        return MISSING
    by_topic: dict[str, list[str]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(str(partition.partition_index))
    return ", ".join(sorted(f"({','.join(sorted(indexes))})" for indexes in by_topic.values()))


def state_table(group: str, description: Description) -> str:
    """A group in one row; an empty line first."""
    where = description.coordinator
    coordinator = f"{where.host}:{where.port}  ({where.node_id})"
    # It is the column of the group that grows with the coordinator.
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
    """Names with types and states."""
    width = max([WIDTH, *(len(group.group_id) for group in groups)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(group.group_id, group.group_type, group.group_state) for group in groups]
    shown = [0, *([1] if has_type else []), *([2] if has_state else [])]
    return "\n".join(_line([row[index] for index in shown], (width, 20, 20)) for row in rows)


def plans_table(plans: Mapping[str, Plan]) -> str:
    """What is or would be reset; an empty line first.

    Differs from Kafka: its 3.9 prints the header and all rows as one line without an end.
    """
    if not plans:
        return ""
    rows: list[tuple[str, ...]] = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")]
    rows += [
        (group, partition.topic, str(partition.partition_index), str(offset))
        for group, plan in plans.items()
        for partition, offset in plan.items()
    ]
    return "".join(f"\n{_line(row, (30, 30, 10, 15))}" for row in rows) + "\n"


def deletions_table(rows: Iterable[tuple[TopicPartition, str]]) -> str:
    """What became of the offsets of each partition; an empty line first.

    Differs from Kafka: its 3.9 prints the header and all rows as one line without an end.

    rows  index -1 for a topic whose partitions are not known
    """
    lines: list[tuple[str, ...]] = [("TOPIC", "PARTITION", "STATUS")]
    lines += [
        (
            partition.topic,
            str(partition.partition_index) if partition.partition_index >= 0 else "Not Provided",
            status,
        )
        for partition, status in rows
    ]
    return "".join(f"\n{_line(line, (30, 15, 15))}" for line in lines) + "\n"
