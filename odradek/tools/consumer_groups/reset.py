"""`odradek consumer-groups --reset-offsets`: compute new offsets of groups and commit them.

Source: Kafka 3.9's ConsumerGroupCommand (resetOffsets, getPartitionsToReset, prepareOffsetsToReset,
checkOffsetsRange).
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.bounded_files import read_file
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.consumer_groups.describe import print_error
from odradek.tools.consumer_groups.group_offsets import commit_offsets, committed_offsets
from odradek.tools.consumer_groups.options import SCENARIOS, usage
from odradek.tools.consumer_groups.plan_csv import ResetPlan, parse_plans
from odradek.tools.consumer_groups.queries import describe
from odradek.tools.consumer_groups.times import before, parse_datetime
from odradek.tools.errors import KafkaError, ToolError, partition_text
from odradek.tools.options import INT32_MAX, INT64_MAX, Options
from odradek.tools.partition_offsets import NO_OFFSET, list_offsets, partitions_of

FILE_BYTES_MAX: Final = 64 << 20
INACTIVE: Final = ("Empty", "Dead")
LOGGER: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def reset_offsets(client: Client, options: Options, groups: Sequence[str]) -> dict[str, ResetPlan]:
    """The new offsets of each group, which are committed with --execute.

    raises  ToolError, OptionsError, ClientError; earlier groups keep the offsets committed so far
    """
    plans: dict[str, ResetPlan] = {}
    for group, description in describe(client, groups).items():
        if isinstance(description, KafkaError):
            raise description
        if description.state not in INACTIVE:
            print_error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the "
                f"current state is {description.state}."
            )
            plans[group] = {}
            continue
        partitions = _partitions(client, options, group)
        plan = _plan(client, options, group, partitions)
        plans[group] = {partition: plan[partition] for partition in sorted(plan)}
        if options.has("execute") and not options.has("dry-run"):
            commit_offsets(client, group, plans[group])
    return plans


def parse_scope(text: str) -> list[TopicPartition]:
    """Parse `topic:0,1` into partitions.

    raises  OptionsError
    """
    words = text.split(":")
    while words and not words[-1]:
        words.pop()
    if len(words) != 2:
        raise usage(f"Invalid topic arg '{text}', expected topic name and partitions")
    indexes = words[1].split(",")
    while len(indexes) > 1 and not indexes[-1]:
        indexes.pop()
    partitions = []
    for index in indexes:
        is_number = index.removeprefix("+").removeprefix("-").isdecimal()
        if not is_number or not -INT32_MAX - 1 <= int(index) <= INT32_MAX:
            raise usage(f"Invalid partition '{index}' specified in topic arg '{text}''")
        partitions.append(TopicPartition(words[0], int(index)))
    return partitions


def _partitions(client: Client, options: Options, group: str) -> list[TopicPartition]:
    if options.has("all-topics"):
        return list(committed_offsets(client, group))
    if options.has("topic"):
        texts = options.values("topic")
        partitions = [partition for text in texts if ":" in text for partition in parse_scope(text)]
        for topic in sorted({text for text in texts if ":" not in text}):
            partitions += partitions_of(client, topic)
        return partitions
    if not options.has("from-file"):
        raise usage("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


def _plan(
    client: Client, options: Options, group: str, partitions: Sequence[TopicPartition]
) -> ResetPlan:
    """The new offset of each partition, by the scenario in the options."""
    if options.has("from-file"):
        return _from_file(client, options, group)
    if len(set(partitions)) < len(partitions):
        twice = next(
            partition
            for index, partition in enumerate(partitions)
            if partition in partitions[:index]
        )
        raise ToolError(f"Duplicate key {partition_text(twice)}")
    if options.has("to-offset"):
        offset = options.number("to-offset", INT64_MAX)
        assert offset is not None, "a value is required"
        return _in_range(client, dict.fromkeys(partitions, offset))
    if options.has("to-current"):
        return _current(client, group, partitions)
    if options.has("to-earliest"):
        return list_offsets(client, partitions, EARLIEST_TIMESTAMP)
    if options.has("to-latest"):
        return list_offsets(client, partitions, LATEST_TIMESTAMP)
    if options.has("shift-by"):
        return _shifted(client, options, group, partitions)
    if options.has("to-datetime"):
        return _at(client, partitions, parse_datetime(options.value("to-datetime") or ""))
    if options.has("by-duration"):
        then_ms = before(time.time_ns(), options.value("by-duration") or "")
        return _at(client, partitions, then_ms)
    names = ", ".join(f"[{scenario}]" for scenario in SCENARIOS)
    raise usage(f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]")


def _current(client: Client, group: str, partitions: Sequence[TopicPartition]) -> ResetPlan:
    offsets = committed_offsets(client, group)
    plan = {
        partition: offsets[partition] for partition in sorted(partitions) if partition in offsets
    }
    others = [partition for partition in partitions if partition not in offsets]
    return plan | list_offsets(client, others, LATEST_TIMESTAMP)


def _shifted(
    client: Client, options: Options, group: str, partitions: Sequence[TopicPartition]
) -> ResetPlan:
    offsets = committed_offsets(client, group)
    plan: ResetPlan = {}
    for partition in partitions:
        count = options.number("shift-by", INT64_MAX)
        assert count is not None, "a value is required"
        if partition not in offsets:
            raise usage(
                f"Cannot shift offset for partition {partition_text(partition)} since there is "
                "no current committed offset"
            )
        plan[partition] = offsets[partition] + count
    return _in_range(client, plan)


def _from_file(client: Client, options: Options, group: str) -> ResetPlan:
    path = options.value("from-file") or ""
    try:
        text = read_file(path, FILE_BYTES_MAX).decode(errors="replace")
    except OSError:
        raise ToolError(f"Unable to read file {path}") from None
    plan = parse_plans(text, options.values("group")).get(group)
    if plan is None:
        print_error(f"No reset plan for group {group} found")
        return {}
    return _in_range(client, plan)


def _at(client: Client, partitions: Sequence[TopicPartition], then_ms: int) -> ResetPlan:
    """The first offset at or after a time; the log end offset when there is none."""
    offsets = list_offsets(client, partitions, then_ms)
    late = sorted(partition for partition in offsets if offsets[partition] == NO_OFFSET)
    for partition in late:
        print(
            f"\nWarn: Partition {partition.partition} from topic {partition.topic} is empty. "
            "Falling back to latest known offset."
        )
    return offsets | list_offsets(client, late, LATEST_TIMESTAMP)


def _in_range(client: Client, requested: Mapping[TopicPartition, int]) -> ResetPlan:
    """The requested offsets, each moved into the range of its log."""
    starts = list_offsets(client, requested, EARLIEST_TIMESTAMP)
    ends = list_offsets(client, requested, LATEST_TIMESTAMP)
    plan: ResetPlan = {}
    for partition in sorted(requested):
        offset = requested[partition]
        if offset > ends[partition]:
            plan[partition] = ends[partition]
            _warn(f"New offset ({offset}) is higher than latest", partition, ends[partition])
        elif offset < starts[partition]:
            plan[partition] = starts[partition]
            _warn(f"New offset ({offset}) is lower than earliest", partition, starts[partition])
        else:
            plan[partition] = offset
    return plan


def _warn(what: str, partition: TopicPartition, offset: int) -> None:
    """Print a warning in the log format of Kafka's tools."""
    now = datetime.datetime.now(tz=datetime.UTC).astimezone()
    print(
        f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}] WARN {what} offset for topic "
        f"partition {partition_text(partition)}. Value will be set to {offset} ({LOGGER})",
        file=sys.stderr,
    )
