"""Reset plans (new offsets of groups) as comma-separated values.

    topic,partition,offset           the plan of a single group
    group,topic,partition,offset     the plans of several groups

The format of Jackson's CSV, which Kafka's tool uses: a value may be in quotes, in which quotes are
doubled; blanks around a number are ignored; a number that is missing or empty is 0.
Source: Kafka 3.9's ConsumerGroupCommand (parseResetPlan, exportOffsetsToCsv), CsvUtils.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.errors import ToolError
from odradek.tools.options import INT32_MAX, INT64_MAX, java_integer

ResetPlan = dict[TopicPartition, int]
"""Offsets by partition."""

QUOTED_FROM: Final = 25
"""A value of this many characters or more is always written in quotes."""
_VALUE: Final = re.compile(r'"((?:[^"]|"")*)"|([^,]*)')
_NUMBER: Final = re.compile(r"[+-]?\d+")
_BLANKS: Final = "".join(map(chr, range(33)))
_NOTHING: Final = "No content to map due to end-of-input"


class ResetRow(NamedTuple):
    group: str
    partition: TopicPartition
    offset: int


def parse_plans(text: str, groups: Sequence[str]) -> dict[str, ResetPlan]:
    """Parse the text of a file into the plan of each group.

    Of several rows for one partition the last one counts.
    groups  the groups of the command line; a file without groups requires exactly one
    raises  ToolError for an invalid line
    """
    lines = text.split("\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    only = groups[0] if len(groups) == 1 and _is_row(lines[0]) else None
    plans: dict[str, ResetPlan] = {}
    for line in lines:
        row = parse_row(line, only)
        plans.setdefault(row.group, {})[row.partition] = row.offset
    return plans


def _is_row(line: str) -> bool:
    """Whether the line is a row without a group."""
    try:
        parse_row(line, "")
    except ToolError:
        return False
    return True


def parse_row(line: str, group: str | None) -> ResetRow:
    """Parse one line.

    group   the group of the row; None: it is the first value of the line
    raises  ToolError
    """
    values = _values(line)
    columns = 3 if group is not None else 4
    given = values + [""] * columns
    if group is None:
        group = given.pop(0)
    index = _number(given[1], "int", INT32_MAX)
    offset = _number(given[2], "long", INT64_MAX)
    if len(values) > columns and (len(values) > columns + 1 or values[columns]):
        value = values[columns]
        raise ToolError(
            f"Too many entries: expected at most "
            f'{columns} (value #{columns} ({len(value)} chars) "{value}")'
        )
    return ResetRow(group, TopicPartition(given[0], index), offset)


def _values(line: str) -> list[str]:
    if not line:
        raise ToolError(_NOTHING)
    line = line.partition("\r")[0]
    values = []
    position = 0
    while True:
        match = _VALUE.match(line, position)
        assert match is not None, "a value may be empty"
        if match[1] is None and line[position : position + 1] == '"':
            raise ToolError("Missing closing quote for value")
        values.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position = match.end() + 1
        if position > len(line):
            return values
        if line[position - 1] != ",":
            character = line[position - 1]
            raise ToolError(
                f"Unexpected character ('{character}' (code "
                f"{ord(character)})): Expected column separator character (',' (code 44)) or "
                "end-of-line"
            )


def _number(text: str, kind: str, largest: int) -> int:
    digits = text.strip(_BLANKS)
    if not digits:
        return 0
    if not _NUMBER.fullmatch(digits):
        raise ToolError(
            f"Cannot deserialize value of type "
            f'`{kind}` from String "{text}": not a valid `{kind}` value'
        )
    number = java_integer(digits, largest)
    if number is None:
        raise ToolError(f"Numeric value ({digits}) out of range of {kind}")
    return number


def export_plans(plans: Mapping[str, ResetPlan], groups: Sequence[str]) -> str:
    """Write all plans; each row ends with a line feed.

    groups  the groups of the command line; with a single one rows have no group
    """
    return "".join(
        ",".join(
            [
                *([] if len(groups) == 1 else [_written(group)]),
                _written(partition.topic),
                str(partition.partition),
                f"{offset}\n",
            ]
        )
        for group, plan in plans.items()
        for partition, offset in plan.items()
    )


def _written(value: str) -> str:
    # Jackson quotes a value with any character below the minus sign.
    if len(value) >= QUOTED_FROM or any(character < "-" for character in value):
        return '"' + value.replace('"', '""') + '"'
    return value
