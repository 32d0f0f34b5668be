"""Offsets that a group shall have, as lines of comma-separated values.

    topic,partition,offset           the plan of the only group
    group,topic,partition,offset     a plan for each of several

Read and written as Kafka's tool does with Jackson's CSV: quotes around a value, doubled inside it;
numbers may have blanks around them, one that is missing or empty is 0.
Source: Kafka 3.9's ConsumerGroupCommand (parseResetPlan, exportOffsetsToCsv), CsvUtils.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.tools.consumer_groups.errors import ToolError
from odradek.tools.consumer_groups.java_hash_order import TopicPartition
from odradek.tools.options import INT32_MAX, INT64_MAX

Plan = dict[TopicPartition, int]
"""Offsets by partition."""

QUOTED_FROM: Final = 25
"""Values of that many characters are written in quotes whatever they hold."""
_VALUE: Final = re.compile(r'"((?:[^"]|"")*)"|([^,]*)')
_NUMBER: Final = re.compile(r"[+-]?\d+")
_BLANKS: Final = "".join(map(chr, range(33)))
_JACKSON: Final = "com.fasterxml.jackson."
_NOTHING: Final = (
    f"{_JACKSON}databind.exc.MismatchedInputException: No content to map due to end-of-input"
)


class Row(NamedTuple):
    """One line of a plan."""

    group: str
    partition: TopicPartition
    offset: int


def parse_plans(text: str, groups: Sequence[str]) -> dict[str, Plan]:
    """The plan of each group, from the text of a file.

    groups  those that the command line names; of a file without groups it has to be one
    raises  ToolError for a line that is no row; what came first of two rows for one partition is
            forgotten
    """
    lines = text.split("\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    only = groups[0] if len(groups) == 1 and _is_row(lines[0]) else None
    plans: dict[str, Plan] = {}
    for line in lines:
        row = parse_row(line, only)
        plans.setdefault(row.group, {})[row.partition] = row.offset
    return plans


def _is_row(line: str) -> bool:
    """Whether it is one without a group."""
    try:
        parse_row(line, "")
    except ToolError:
        return False
    return True


def parse_row(line: str, group: str | None) -> Row:
    """A line as a row.

    group   whose row it is; None: its first value tells
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
            f"{_JACKSON}dataformat.csv.CsvReadException: Too many entries: expected at most "
            f'{columns} (value #{columns} ({len(value)} chars) "{value}")'
        )
    return Row(group, TopicPartition(given[0], index), offset)


def _values(line: str) -> list[str]:
    if not line:
        raise ToolError(_NOTHING)
    line = line.partition("\r")[0]
    values = []
    position = 0
    while True:
        found = _VALUE.match(line, position)
        assert found is not None, "a value may be empty"
        if found[1] is None and line[position : position + 1] == '"':
            raise ToolError(f"{_JACKSON}core.JsonParseException: Missing closing quote for value")
        values.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        position = found.end() + 1
        if position > len(line):
            return values
        if line[position - 1] != ",":
            character = line[position - 1]
            raise ToolError(
                f"{_JACKSON}core.JsonParseException: Unexpected character ('{character}' (code "
                f"{ord(character)})): Expected column separator character (',' (code 44)) or "
                "end-of-line"
            )


def _number(text: str, kind: str, largest: int) -> int:
    digits = text.strip(_BLANKS)
    if not digits:
        return 0
    if not _NUMBER.fullmatch(digits):
        raise ToolError(
            f"{_JACKSON}databind.exc.InvalidFormatException: Cannot deserialize value of type "
            f'`{kind}` from String "{text}": not a valid `{kind}` value'
        )
    if not -largest - 1 <= int(digits) <= largest:
        raise ToolError(
            f"{_JACKSON}databind.JsonMappingException: Numeric value ({digits}) out of range of "
            f"{kind}"
        )
    return int(digits)


def export_plans(plans: Mapping[str, Plan], groups: Sequence[str]) -> str:
    """The rows of all plans, each with a line feed behind it.

    groups  those that the command line names; the rows of only one go without it
    """
    return "".join(
        ",".join(
            [
                *([] if len(groups) == 1 else [_written(group)]),
                _written(partition.topic),
                str(partition.partition_index),
                f"{offset}\n",
            ]
        )
        for group, plan in plans.items()
        for partition, offset in plan.items()
    )


def _written(value: str) -> str:
    # Everything before the minus sign might be one of the characters that need quotes.
    if len(value) >= QUOTED_FROM or any(character < "-" for character in value):
        return '"' + value.replace('"', '""') + '"'
    return value
